package verify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRefusalsDoNotRevealWhichKeysExist sends invalid requests without a key, under the id of
// an existing key and under another. The three codes that depend on the key are one code
// outside.
func TestRefusalsDoNotRevealWhichKeysExist(t *testing.T) {
	t.Parallel()
	outside := func(c Code) Code {
		if c == KeyUnknown || c == AlgorithmMismatch {
			return SignatureMismatch
		}
		return c
	}
	known := map[Alg]Key{}
	for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, RSAPSSSHA512} {
		known[alg] = newPair(t, "k", alg).key
	}
	set := func(name, value string) func(*scene) { return func(s *scene) { s.r.Header.Set(name, value) } }
	for name, c := range map[string]struct {
		components []string
		spoil      func(*scene)
	}{
		"everything covered":    {allComponents, nil},
		"insufficient coverage": {[]string{"@method"}, nil},
		"no digest": {[]string{"@method", "@target-uri", "content-type",
			"idempotency-key"}, func(s *scene) { s.r.Header.Del("Content-Digest") }},
		"another body":      {allComponents, func(s *scene) { s.body = "{}" }},
		"an invalid digest": {allComponents, set("Content-Digest", "x")},
		"the key on two lines": {allComponents,
			func(s *scene) { s.r.Header.Add("Idempotency-Key", "b") }},
		"a removed field":                        {allComponents, func(s *scene) { s.r.Header.Del("Content-Type") }},
		"an octet above ASCII":                   {allComponents, set("Content-Type", "\xe4")},
		"sf of a field that is not a dictionary": {append(allComponents[:5:5], "x-dict;sf"), set("X-Dict", `"text"`)},
		"a parameter of the query": {append(allComponents[:5:5], `@query-param;name="a"`),
			func(s *scene) { s.r.URL.RawQuery = "a=1&a=2" }},
		"an absent parameter": {append(allComponents[:5:5], `@query-param;name="a"`),
			func(s *scene) { s.r.URL.RawQuery = "b=1" }},
		"a query that cannot be parsed": {allComponents, func(s *scene) { s.r.URL.RawQuery = "a=%zz" }},
		"a signature of 3 bytes":        {allComponents, set("Signature", "sig1=:AAAA:")},
		"no signature at all":           {allComponents, set("Signature", "sig1=::")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var codes []Code
			for _, id := range []string{"k", "unknown"} {
				for _, alg := range []Alg{HMACSHA256, Ed25519, ECDSAP256SHA256, RSAPSSSHA512} {
					s := newScene(t)
					s.scheme = &RFC9421{Keys: StaticKeys(known[alg])}
					other := newPair(t, id, Ed25519)
					s.pair = testPair{s.pair.key, other.signer}
					s.pair.signer.NameAlg = alg == HMACSHA256
					s.r.Header.Set("X-Dict", "a=1")
					s.resign(t, c.components...)
					if c.spoil != nil {
						c.spoil(s)
					}
					_, err := s.verify()
					if err == nil {
						t.Fatal("an invalid signature is accepted")
					}
					codes = append(codes, outside(CodeOf(err)))
				}
			}
			for _, code := range codes {
				if code != codes[0] {
					t.Fatalf("codes %q: the first half are of keys that exist", codes)
				}
			}
		})
	}
}

func TestQueriesAreSignedAsTheyArrived(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string][2]string{
		"https://hooks.example/h":        {"?", "https://hooks.example/h"},
		"https://hooks.example/h?":       {"?", "https://hooks.example/h?"},
		"https://hooks.example/h?a=%7e":  {"?a=%7e", "https://hooks.example/h?a=%7e"},
		"https://hooks.example/h?a=%7E&": {"?a=%7E&", "https://hooks.example/h?a=%7E&"},
	} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMessage(&http.Request{Method: http.MethodPost, URL: u})
		if err != nil {
			t.Fatal(err)
		}
		if string(m.appendQuery(nil)) != want[0] || string(m.appendTargetURI(nil)) != want[1] {
			t.Errorf("%s: %q, %q", raw, string(m.appendQuery(nil)), string(m.appendTargetURI(nil)))
		}
	}
}

func TestKeysVerifyNoOtherAlgorithm(t *testing.T) {
	t.Parallel()
	pss := newPair(t, "k", RSAPSSSHA512)
	for _, named := range []bool{false, true} {
		forged := Signer{KeyID: "k", Alg: RSAv15SHA256, Private: pss.signer.Private, NameAlg: named}
		r := newDelivery(t, testBody)
		if err := forged.Sign(r, []byte(testBody), testNow); err != nil {
			t.Fatal(err)
		}
		_, err := (&RFC9421{Keys: StaticKeys(pss.key), Algs: []Alg{RSAPSSSHA512, RSAv15SHA256}}).Verify(r,
			bodyOf(testBody))
		want := SignatureMismatch
		if named {
			want = AlgorithmMismatch
		}
		wantCode(t, err, want)
	}
}

// publicComparisons are those of texts that the client may know, by file.
var publicComparisons = map[string]string{
	"rfc9421.go":        "in.alg != string(k.material.alg)",
	"rfc9421_digest.go": "sha256.Sum256(body) != d.sha256; sha512.Sum512(body) != d.sha512",
	"adyen.go":          "bytes.EqualFold([]byte(n), text); string(text) == names[i]",
	"batch.go":          "string(key) != name",
	"build.go":          "slices.Equal(scheme.Hashes, []verify.Hash{…})",
	"twilio.go": "strings.EqualFold(want, hex.EncodeToString(sum[:])); " + // of the body, in the signed URL
		"bytes.Compare(a.name, b.name); bytes.Compare(a.value, b.value)",
	"twilio_query.go": "bytes.Equal(anew, sent)",
	"deliveries.go":   "queryOf(r).Show == string(refused); string(what) == q.Show",
	"page_redact.go":  "bytes.Equal(p.Body, was.Body); bytes.Equal(body, was)",
	"delivery.go":     "string(name) != member",
}

// TestSecretsAreComparedInConstantTime reads the code of verify, the presets and the page: each
// comparison of texts that may be secret, or made from a secret, takes constant time.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	for _, code := range []string{ // what the test must find
		"string(a) == string(b)", "sum != want", "k.mac == x.mac", "[32]byte(a) == b", "sha256.Sum256(a) == b",
		"hex.EncodeToString(a) == b", "bytes.Equal(a, b)", "slices.Equal(a, b)", "strings.EqualFold(a, secret)",
		"string(secret) == text", "bytes.Compare(sum, sig) == 0", "x.token == y", "f(a) == mac.Sum(nil)",
	} {
		expr, err := parser.ParseExpr(code)
		if err != nil || len(comparisons(expr)) == 0 {
			t.Errorf("%s is not found (%v)", code, err)
		}
	}
	for _, dir := range []string{".", "../producer/preset", "../inspect", "../producer"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			public := strings.Split(publicComparisons[filepath.Base(file)], "; ")
			for _, text := range comparisons(f) {
				if !slices.Contains(public, text) {
					t.Errorf("%s: %s", file, text)
				}
			}
		}
	}
}

// secretName matches the names of values that are secret, or are made from a secret.
var secretName = regexp.MustCompile(
	`(?i)(mac|sum|sum256|sum512|secret|secrets|signature|sig|token|password|pass|digest)$`)

// comparisons returns the comparisons of texts that may be secret, except those with a constant.
func comparisons(n ast.Node) (found []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && !isConstant(n.X) && !isConstant(n.Y) &&
				(maySecret(n.X) || maySecret(n.Y)) {
				found = append(found, types.ExprString(n))
			}
		case *ast.CallExpr:
			switch types.ExprString(n.Fun) {
			case "bytes.Equal", "bytes.Compare", "bytes.EqualFold", "slices.Equal", "slices.Compare",
				"reflect.DeepEqual":
				found = append(found, types.ExprString(n))
			case "strings.EqualFold", "strings.Compare", "cmp.Compare":
				if maySecret(n.Args[0]) || maySecret(n.Args[1]) {
					found = append(found, types.ExprString(n))
				}
			}
		}
		return true
	})
	return found
}

// isConstant reports whether an operand is a literal, nil, or a length.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.CompositeLit:
		return true
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false"
	case *ast.CallExpr:
		return types.ExprString(e.Fun) == "len"
	case *ast.UnaryExpr:
		return isConstant(e.X)
	}
	return false
}

// maySecret reports whether an operand is a conversion of bytes, the result of a hash or an
// encoding, or has the name of a secret.
func maySecret(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return secretName.MatchString(e.Name)
	case *ast.SelectorExpr:
		return secretName.MatchString(e.Sel.Name)
	case *ast.IndexExpr:
		return maySecret(e.X)
	case *ast.SliceExpr:
		return maySecret(e.X)
	case *ast.ParenExpr:
		return maySecret(e.X)
	case *ast.CallExpr:
		if _, array := e.Fun.(*ast.ArrayType); array {
			return true
		}
		name := types.ExprString(e.Fun)
		return name == "string" || strings.Contains(name, "Encode") || maySecret(e.Fun)
	}
	return false
}
