package verify

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// withSignature sets an invalid signature on a request.
func withSignature(r *http.Request, components, keyID string) {
	r.Header.Set("Signature-Input", fmt.Sprintf(`sig1=(%s);created=%d;keyid=%q`, components, testNow.Unix(), keyID))
	r.Header.Set("Signature", "sig1=:"+strings.Repeat("AAAA", 8)+":")
}

func TestTheWorkForASignatureIsBounded(t *testing.T) {
	t.Parallel()
	dictionary := "a=1, b=1" + strings.Repeat(`, z="`+strings.Repeat("z", 59)+`"`, 96)
	flags := strings.Repeat("a,", maxMarks)
	for name, c := range map[string]struct {
		components, field, query string
		code                     Code
	}{
		"one member":     {`"x-a";key="a"`, dictionary, "", SignatureMismatch},
		"many members":   {`"x-a";key="a" "x-a";key="b"`, dictionary, "", SignatureMalformed},
		"all of it":      {`"x-a";sf`, dictionary + dictionary, "", SignatureMalformed},
		"many values":    {`"x-a";key="a"`, flags + "a", "", SignatureMalformed},
		"as many values": {`"x-a";key="a"`, flags[2:] + "a", "", SignatureMismatch},
		"octets":         {`"x-a"`, dictionary + dictionary, "", SignatureMismatch},
		"one parameter":  {`"@query-param";name="a"`, "", "a=" + strings.Repeat("x", 5<<10), SignatureMismatch},
		"many parameters": {`"@query-param";name="a" "@query-param";name="b"`, "", "b=1&a=" +
			strings.Repeat("x", 5<<10), SignatureMalformed},
		"a large base":        {`"x-a" "x-a";bs`, strings.Repeat("x", 30<<10), "", SignatureMalformed},
		"a large query":       {`"@query"`, "", strings.Repeat("x", maxBase+1), SignatureMalformed},
		"as large as allowed": {`"x-a"`, strings.Repeat("x", 30<<10), "", SignatureMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.scheme.Coverage = Coverage{Required: []string{"@method"}}
			s.scheme = withoutProfile(s.scheme)
			s.r.Header.Set("X-A", c.field)
			s.r.URL.RawQuery = c.query
			withSignature(s.r, `"@method" `+c.components, "k")
			_, err := s.verify()
			wantCode(t, err, c.code)
		})
	}
}
