package verify

import (
	"net/http"
	"testing"
)

// TestWhatIsPinnedNeedsNoCoverage: each row leaves out one condition under which a component may
// be uncovered, and is refused for it.
func TestWhatIsPinnedNeedsNoCoverage(t *testing.T) {
	t.Parallel()
	method, query := Pinned{Method: "POST"}, Pinned{Query: true}
	withoutMethod := []string{"@target-uri", "content-digest", "content-type", "idempotency-key"}
	withoutQuery := []string{"@method", "@authority", "@path", "content-digest", "content-type", "idempotency-key"}
	withoutURL := []string{"@method", "content-digest", "content-type", "idempotency-key"}
	withoutType := []string{"@method", "@target-uri", "content-digest", "idempotency-key"}
	json := Pinned{MediaType: "application/json"}
	withQuery := append([]string{"@query"}, withoutQuery...)
	for name, row := range map[string]struct {
		pinned  Pinned
		covered []string
		before  func(*scene) // it is signed
		after   func(*scene)
		want    string // the component that is missing, or ""
	}{
		"method":                  {method, withoutMethod, nil, nil, ""},
		"method, not pinned":      {query, withoutMethod, nil, nil, "@method"},
		"method, another":         {method, withoutMethod, nil, func(s *scene) { s.r.Method = "PUT" }, "@method"},
		"method, HEAD is not GET": {Pinned{Method: "GET"}, withoutMethod, nil, head, "@method"},
		"method, replaced":        {method, withoutMethod, nil, withLine("X-Http-Method-Override", "POST"), "@method"},
		"method, replaced, 2":     {method, withoutMethod, nil, withLine("X-Method-Override", ""), "@method"},
		"method, replaced, 3":     {method, withoutMethod, nil, withLine("X-HTTP-Method", "PUT"), "@method"},
		"method, no body":         {method, withoutMethod, emptied, nil, "@method"},
		"method, no body, chunked": {method, withoutMethod, emptied, func(s *scene) { s.r.ContentLength = -1 },
			"@method"},
		"method, chunked": {method, withoutMethod, nil, func(s *scene) { s.r.ContentLength = -1 }, ""},
		"method, no digest": {method, []string{"@target-uri", "content-type", "idempotency-key"}, nil, nil,
			"@method"},
		"query":               {query, withoutQuery, nil, nil, ""},
		"query, not pinned":   {method, withoutQuery, nil, nil, "@target-uri"},
		"query, there is one": {query, withoutQuery, target("?a=1"), nil, "@target-uri"},
		"query, added":        {query, withoutQuery, nil, target("?a=1"), "@target-uri"},
		"query, a lone mark":  {query, withoutQuery, nil, target("?"), "@target-uri"},
		"query, covered":      {query, withQuery, target("?a=1"), nil, ""},
		"query, no path":      {query, []string{"@method", "@authority", "content-digest"}, nil, nil, "@target-uri"},
		"query, no host":      {query, []string{"@method", "@path", "content-digest"}, nil, nil, "@target-uri"},
		"URL":                 {Pinned{URL: true, Query: true}, withoutURL, nil, nil, ""},
		"URL, a query":        {Pinned{URL: true, Query: true}, withoutURL, nil, target("?a=1"), "@target-uri"},
		"URL, not the query":  {Pinned{URL: true}, withoutURL, nil, nil, "@target-uri"},
		"type":                {json, withoutType, nil, nil, ""},
		"type, its charset": {json, withoutType,
			withLine("Content-Type", `Application/JSON; charset="UTF-8"`), nil, ""},
		"type, another": {json, withoutType, nil, withLine("Content-Type", "text/plain"), "content-type"},
		"type, parameters": {json, withoutType, nil,
			withLine("Content-Type", "application/json; a=b"), "content-type"},
		"type, two lines": {json, withoutType, nil, twoTypes, "content-type"},
		"type, two parameters": {json, withoutType, nil,
			withLine("Content-Type", "application/json; charset=utf-8; charset=utf-8"), "content-type"},
		"type, not pinned": {query, withoutType, nil, nil, "content-type"},
		"gzip, removed":    {json, withoutType, coded("\x1f\x8b\x08\x00"), nil, "content-encoding"},
		"deflate, removed": {json, withoutType, coded("\x78\x9c\x01\x00"), nil, "content-encoding"},
		"zstd, removed":    {json, withoutType, coded("\x28\xb5\x2f\xfd"), nil, "content-encoding"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.scheme.Coverage.Pinned = row.pinned
			s.r.URL.RawQuery = ""
			sign := func(s *scene) { s.resign(t, row.covered...) }
			for _, change := range []func(*scene){row.before, sign, row.after} {
				if change != nil {
					change(s)
				}
			}
			_, err := s.verify()
			if got := componentOf(err); got != row.want || (err == nil) != (row.want == "") {
				t.Errorf("%v: component %q, want %q", err, got, row.want)
			}
		})
	}
}

func head(s *scene) { s.r.Method = http.MethodHead }

func withLine(name, value string) func(*scene) {
	return func(s *scene) { s.r.Header[http.CanonicalHeaderKey(name)] = []string{value} }
}

func emptied(s *scene) {
	digest, err := ContentDigest(nil)
	if err != nil {
		panic(err)
	}
	s.body, s.r.ContentLength, s.r.Body = "", 0, http.NoBody
	s.r.Header.Set("Content-Digest", digest)
}

func target(query string) func(*scene) {
	return func(s *scene) { s.r.URL.RawQuery, s.r.URL.ForceQuery = query[1:], query == "?" }
}

// componentOf returns the component of a refusal for its coverage, or the code of another one.
func componentOf(err error) string {
	if code := CodeOf(err); code != InsufficientCoverage && code != "" {
		return string(code)
	}
	if refusal, ok := err.(*Error); ok { //nolint:errorlint // Verify returns it
		return refusal.Component
	}
	return ""
}

func twoTypes(s *scene) { s.r.Header.Add("Content-Type", "application/json") }

// coded is a request whose Content-Encoding was removed.
func coded(body string) func(*scene) {
	return func(s *scene) {
		s.body = body
		s.r.ContentLength = int64(len(s.body))
		s.r.Header.Del("Content-Digest")
	}
}
