package verify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// withSignature puts a signature that nobody made on a request.
func withSignature(r *http.Request, components, keyID string) {
	r.Header.Set("Signature-Input", fmt.Sprintf(`sig1=(%s);created=%d;keyid=%q`, components, testNow.Unix(), keyID))
	r.Header.Set("Signature", "sig1=:"+strings.Repeat("AAAA", 8)+":")
}

func TestRefusalsDoNotTellWhichKeysThereAre(t *testing.T) {
	t.Parallel()
	full := `"` + strings.Join(allComponents, `" "`) + `"`
	for name, c := range map[string]struct {
		components string
		change     func(*http.Request)
		code       Code
	}{
		"too little covered":            {`"@method"`, nil, InsufficientCoverage},
		"a field on two lines":          {full, func(r *http.Request) { r.Header.Add("Idempotency-Key", "k-2") }, AmbiguousField},
		"a field that is no text":       {full + ` "x-a"`, func(r *http.Request) { r.Header.Set("X-A", "\xff") }, SignatureMalformed},
		"a field of another form":       {full + ` "x-a";sf`, func(r *http.Request) { r.Header.Set("X-A", "(") }, ComponentUnsupported},
		"a parameter that is not there": {full + ` "@query-param";name="z"`, nil, SignatureMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			if c.change != nil {
				c.change(s.r)
			}
			for _, id := range []string{"k", "nobody"} {
				withSignature(s.r, c.components, id)
				s.r.Header.Set("Content-Digest", "sha-256=:AAAA:")
				_, err := s.verify()
				wantCode(t, err, c.code)
			}
		})
	}
}

func TestTheWorkForASignatureIsBounded(t *testing.T) {
	t.Parallel()
	dictionary := "a=1, b=1" + strings.Repeat(`, z="`+strings.Repeat("z", 59)+`"`, 96)
	flags := strings.Repeat("a,", maxMarks)
	for name, c := range map[string]struct {
		components, field, query string
		code                     Code
	}{
		"one member":        {`"x-a";key="a"`, dictionary, "", SignatureMismatch},
		"many members":      {`"x-a";key="a" "x-a";key="b"`, dictionary, "", SignatureMalformed},
		"all of it":         {`"x-a";sf`, dictionary + dictionary, "", SignatureMalformed},
		"many values":       {`"x-a";key="a"`, flags + "a", "", SignatureMalformed},
		"as many values":    {`"x-a";key="a"`, flags[2:] + "a", "", SignatureMismatch},
		"octets":            {`"x-a"`, dictionary + dictionary, "", SignatureMismatch},
		"one parameter":     {`"@query-param";name="a"`, "", "a=" + strings.Repeat("x", 5<<10), SignatureMismatch},
		"many parameters":   {`"@query-param";name="a" "@query-param";name="b"`, "", "b=1&a=" + strings.Repeat("x", 5<<10), SignatureMalformed},
		"a large base":      {`"x-a" "x-a";bs`, strings.Repeat("x", 30<<10), "", SignatureMalformed},
		"a large query":     {`"@query"`, "", strings.Repeat("x", maxBase+1), SignatureMalformed},
		"as large as it is": {`"x-a"`, strings.Repeat("x", 30<<10), "", SignatureMismatch},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.scheme.Coverage.Exactly = []string{"@method"}
			s.r.Header.Set("X-A", c.field)
			s.r.URL.RawQuery = c.query
			withSignature(s.r, `"@method" `+c.components, "k")
			_, err := s.verify()
			wantCode(t, err, c.code)
		})
	}
}

// TestStrangersDoNotPushOutACertificateInUse has a stranger name old certificates of the vendor, which are good
// ones, and use the budget of fetches up for good.
func TestStrangersDoNotPushOutACertificateInUse(t *testing.T) {
	t.Parallel()
	a := newAuthority()
	now, down := time.Unix(tokenNow, 0), false
	good := pemOf(a.leaf(&a.key.PublicKey, "x.example"), a.mid)
	certs := &Certs{Roots: a.roots(), Now: func() time.Time { return now }, Fetch: func(context.Context, string) ([]byte, error) {
		if down {
			return nil, errors.New("status 503")
		}
		return good, nil
	}}
	find := func(address string) error {
		_, err := certs.find(t.Context(), address, anyName)
		return err
	}
	for _, address := range []string{"https://a/used.pem", "https://a/old.pem"} {
		if err := find(address); err != nil {
			t.Fatal(err)
		}
	}
	certs.prove("https://a/used.pem")
	certs.prove("https://a/never-fetched.pem")
	for i := range 3 * certCacheSize {
		now = now.Add(2 * certFetchSpan / certFetchBudget)
		if err := find(fmt.Sprintf("https://a/%d.pem", i)); err != nil {
			t.Fatal(err)
		}
	}
	now, down = now.Add(certCacheAge), true
	if err := find("https://a/used.pem"); err != nil {
		t.Errorf("the certificate in use: %v", err)
	}
	for _, address := range []string{"https://a/old.pem", "https://a/1.pem", "https://a/never-fetched.pem"} {
		if CodeOf(find(address)) != KeysUnavailable {
			t.Errorf("%s is served without a fetch", address)
		}
	}
}

func TestTheCertificateOfSNSHasOneAddress(t *testing.T) {
	t.Parallel()
	const host = "https://sns.us-east-1.amazonaws.com"
	for address, ok := range map[string]bool{
		"/SimpleNotificationService-7506a1e3.pem": true, "/a.pem?": false, "/a.pem?x=1": false, "/b/../a.pem": false,
		"//a.pem": false, "/%61.pem": false, "/b/a.pem": false, "/.pem": false, "/a.pem/": false, ":443/a.pem": true,
	} {
		if isSNSCertURL(host+address) != ok {
			t.Errorf("%s: %t", address, !ok)
		}
	}
}
