package verify

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// publicComparisons are those of texts that the client may know, by file.
var publicComparisons = map[string]string{
	"alternative.go":         "seen[string(raw)]", // secrets of the configuration
	"hmac_template.go":       "seen[partSig]; kind == partSig",
	"mtls.go":                "strings.EqualFold(p, digits)",
	"rfc9421.go":             "in.alg != string(k.material.alg)",
	"rfc9421_alternative.go": "other.edit(string(base)) != string(base)",
	"rfc9421_rare.go":        "other != base",
	"rfc9421_digest.go":      "sha256.Sum256(body) != d.sha256; sha512.Sum512(body) != d.sha512",
	"adyen.go":               "bytes.EqualFold([]byte(n), text); string(text) == names[i]",
	"batch.go":               "string(key) != name",
	"build.go":               "slices.Equal(scheme.Hashes, like.Hashes)",
	"twilio.go": "strings.EqualFold(want, hex.EncodeToString(sum[:])); " + // of the body, in the signed URL
		"bytes.Compare(a.name, b.name); bytes.Compare(a.value, b.value)",
	"twilio_query.go": "bytes.Equal(anew, sent)",
	"websub.go":       "o[digest]", // of the configuration
	"acme.go":         "slices.Equal(hello.SupportedProtos, challenge)",
	"activity.go":     "t.Secrets[i]",
	"deliveries.go":   "queryOf(r).Show == string(refused); string(what) == q.Show",
	"page_redact.go":  "bytes.Equal(p.Body, was.Body); bytes.Equal(body, was)",
	"check.go":        "first[offer.Secret]",
	"delivery.go":     "string(name) != member",
	"embedded.go":     "map[string]string{…}", // of the names of fields
	"state.go":        "token != s.token",     // of two files of ours
	"endpoint.go":     "p.Key.String() == producer.BodyDigest().String()",
	"ping.go":         "from.String() != BodyDigest().String()",
}

// timed are ways to compare in a time that depends on the texts. The test must find each of them.
var timed = []string{
	"_ = string(a) == string(b)", "_ = sum != want", "_ = k.mac == x.mac", "_ = [32]byte(a) == b",
	"_ = sha256.Sum256(a) == b", "_ = hex.EncodeToString(a) == b", "_ = bytes.Equal(a, b)", "_ = slices.Equal(a, b)",
	"_ = strings.EqualFold(a, secret)", "_ = string(secret) == text", "_ = bytes.Compare(sum, sig) == 0",
	"_ = x.token == y", "_ = f(a) == mac.Sum(nil)", "_ = got == before+string(v)", "_ = cmp.Compare(a, b.secret) == 0",
	"switch got { case secret: }", "switch string(sum) { case string(sig): }", "switch { case got == want(secret): }",
	"_ = map[string]bool{string(secret): true}[got]", "_ = known[token]", "_, ok := known[string(mac)]; _ = ok",
	"_ = slices.Contains(secrets, got)", "_ = slices.Contains([]string{string(sum)}, got)",
	"_ = slices.Index(s.Secrets, got)", "_ = strings.HasPrefix(secret, got)",
	"_, ok := strings.CutPrefix(got, secret); _ = ok", "_ = bytes.Contains(sum, sig)", "_ = secret < got",
	"for _, v := range s.Secrets { if v == got { return } }", "want := before + string(s.secret); _ = got == want",
	"want := mac.Sum(nil); for i := range want { if want[i] != got[i] { return } }",
	"for i := range a { if a[i] != b[i] { return } }", "_ = fmt.Sprint(secret) == got", "_ = any(secret) == any(got)",
	"same := func(a, b string) bool { return a == b }; _ = same", "_ = *token == got", "_ = sum[0] == sig[0]",
	"want, err := s.Secret.Decode(Raw); _ = err; _ = got == want", "_ = reflect.DeepEqual(a, b)",
	"var want = string(secret); _ = strings.Compare(got, want)", "_ = strings.TrimSpace(secret) == got",
	"_ = slices.ContainsFunc(secrets, func(v Secret) bool { return got == string(v) })", "_ = (got) == (secret)",
	"_ = new(big.Int).SetBytes(sig).Cmp(new(big.Int).SetBytes(sum)) == 0",
}

// timedFunctions are the same, where the parameters show that texts are compared.
var timedFunctions = []string{
	"func same[T comparable](a, b T) bool { return a == b }", "func same(a, b string) bool { return a == b }",
	"func same(a, b []byte) bool { return string(a) == string(b) }", "func same(a, b any) bool { return a == b }",
	"func same(a, b [32]byte) bool { return a == b }", "func (x mac) same(a string, b string) bool { return b != a }",
	"func same[T cmp.Ordered](a, b T) int { return cmp.Compare(a, b) }",
	"func same[T ~string](a, b T) bool { switch a { case b: return true }; return false }",
	"func same(a, b []byte) bool { for i, x := range a { if x != b[i] { return false } }; return true }",
	"func same[T any](a, b T) bool { return any(a) == any(b) }", "func same(a, b *string) bool { return *a == *b }",
	"func same(a, b Secret) bool { return a == b }", "func same(a string, all map[string]bool) bool { return all[a] }",
}

// TestSecretsAreComparedInConstantTime reads the code of verify, the presets and the page: each
// comparison of texts that may be secret, or made from a secret, takes constant time.
func TestSecretsAreComparedInConstantTime(t *testing.T) {
	t.Parallel()
	code := slices.Clone(timedFunctions)
	for _, statement := range timed {
		code = append(code, "func f() { "+statement+" }")
	}
	for _, text := range code {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+text, 0)
		if err != nil || len(comparisons(f)) == 0 {
			t.Errorf("%s is not found (%v)", text, err)
		}
	}
	for _, dir := range []string{".", "../producer/preset", "../inspect", "../producer", "../receiver",
		"../cmd/eyelet/internal/opsapi", "../cmd/eyelet/internal/server"} {
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

// textCalls compare texts, the first ones whatever they are.
var (
	everyCall = regexp.MustCompile(`^(bytes\.(Equal|Compare|EqualFold)|slices\.(Equal|Compare|EqualFunc)|` +
		`reflect\.DeepEqual)$`)
	textCalls = regexp.MustCompile(`^((strings|bytes)\.(EqualFold|Compare|HasPrefix|HasSuffix|Contains|Index|` +
		`CutPrefix|CutSuffix|TrimPrefix|TrimSuffix)|cmp\.Compare|slices\.(Contains|Index|BinarySearch))$`)
)

// comparisons returns the comparisons of texts that may be secret, except those with a constant.
func comparisons(f *ast.File) (found []string) {
	for _, d := range f.Decls {
		r := &reader{secret: map[string]bool{}, param: map[string]bool{}}
		for range 3 { // what is made from what is made from a secret
			ast.Inspect(d, r.learn)
		}
		ast.Inspect(d, r.look)
		found = append(found, r.found...)
	}
	return found
}

// reader looks for comparisons in a declaration.
type reader struct {
	secret map[string]bool // variables that are made from a secret
	param  map[string]bool // parameters that are texts, or of any type
	found  []string
}

// learn finds the variables with secrets, and the parameters.
func (r *reader) learn(n ast.Node) bool {
	mark := func(to ast.Expr, from ast.Expr) {
		if id, ok := to.(*ast.Ident); ok && id.Name != "_" && id.Name != "err" && id.Name != "ok" && r.made(from) {
			r.secret[id.Name] = true
		}
	}
	switch n := n.(type) {
	case *ast.AssignStmt:
		for i, to := range n.Lhs {
			mark(to, n.Rhs[min(i, len(n.Rhs)-1)])
		}
	case *ast.ValueSpec:
		for i, to := range n.Names {
			if len(n.Values) > 0 {
				mark(to, n.Values[min(i, len(n.Values)-1)])
			}
		}
	case *ast.RangeStmt:
		mark(n.Value, n.X)
		if id, ok := n.X.(*ast.Ident); ok && r.param[id.Name] {
			if v, ok := n.Value.(*ast.Ident); ok {
				r.param[v.Name] = true
			}
		}
	case *ast.FuncType:
		for _, list := range []*ast.FieldList{n.TypeParams, n.Params} {
			if list == nil {
				continue
			}
			for _, field := range list.List {
				for _, name := range field.Names {
					r.param[name.Name] = r.param[name.Name] || list == n.TypeParams || r.isText(field.Type)
				}
			}
		}
	}
	return true
}

// isText reports whether a type is that of texts, a map of them, or a parameter of types.
func (r *reader) isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name == "string" || e.Name == "any" || e.Name == "Secret" || r.param[e.Name]
	case *ast.ArrayType:
		id, ok := e.Elt.(*ast.Ident)
		return ok && id.Name == "byte"
	case *ast.MapType:
		return r.isText(e.Key)
	case *ast.StarExpr:
		return r.isText(e.X)
	}
	return false
}

func (r *reader) look(n ast.Node) bool {
	add := func(e ast.Expr) { r.found = append(r.found, types.ExprString(e)) }
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch n.Op { //nolint:exhaustive // the others do not compare
		case token.EQL, token.NEQ, token.LSS, token.GTR, token.LEQ, token.GEQ:
			if r.compares(n.X, n.Y, n.Op == token.EQL || n.Op == token.NEQ) {
				add(n)
			}
		}
	case *ast.SwitchStmt:
		for _, clause := range n.Body.List {
			c, _ := clause.(*ast.CaseClause)
			for _, e := range c.List {
				if n.Tag != nil && r.compares(n.Tag, e, true) {
					add(&ast.BinaryExpr{X: n.Tag, Op: token.EQL, Y: e})
				}
			}
		}
	case *ast.IndexExpr: // of a map
		if (r.made(n.Index) || r.isParam(n.X) && r.isParam(n.Index)) && !isConstant(n.Index) {
			add(n)
		}
	case *ast.CompositeLit:
		if _, isMap := n.Type.(*ast.MapType); isMap && slices.ContainsFunc(n.Elts, func(e ast.Expr) bool {
			pair, ok := e.(*ast.KeyValueExpr)
			return ok && r.made(pair.Key)
		}) {
			add(n)
		}
	case *ast.CallExpr:
		name := types.ExprString(n.Fun)
		both := len(n.Args) > 1 && r.isParam(n.Args[0]) && r.isParam(n.Args[1]) && strings.HasSuffix(name, "Compare")
		cmp := strings.HasSuffix(name, ".Cmp") && slices.ContainsFunc(n.Args, r.made) // of package big
		if everyCall.MatchString(name) || both || cmp ||
			textCalls.MatchString(name) && slices.ContainsFunc(n.Args, r.made) &&
				!slices.ContainsFunc(n.Args, isConstant) {
			add(n)
		}
	}
	return true
}

// compares reports whether two operands may be texts of which one is secret.
func (r *reader) compares(x, y ast.Expr, equal bool) bool {
	if isConstant(x) || isConstant(y) {
		return false
	}
	_, xi := x.(*ast.IndexExpr)
	_, yi := y.(*ast.IndexExpr)
	texts := equal && (r.isParam(x) || xi) && (r.isParam(y) || yi) // element by element, too
	return r.made(x) || r.made(y) || equal && (isConversion(x) || isConversion(y)) || texts
}

// isParam reports whether an operand is a parameter, what it points to, or a conversion of it.
func (r *reader) isParam(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return r.param[e.Name]
	case *ast.StarExpr:
		return r.isParam(e.X)
	case *ast.CallExpr:
		return len(e.Args) == 1 && types.ExprString(e.Fun) == "any" && r.isParam(e.Args[0])
	}
	return false
}

// made reports whether an expression is made from a secret, or has the name of one.
func (r *reader) made(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return secretName.MatchString(e.Name) || r.secret[e.Name]
	case *ast.SelectorExpr:
		return secretName.MatchString(e.Sel.Name)
	case *ast.IndexExpr:
		return r.made(e.X)
	case *ast.SliceExpr:
		return r.made(e.X)
	case *ast.ParenExpr:
		return r.made(e.X)
	case *ast.StarExpr:
		return r.made(e.X)
	case *ast.UnaryExpr:
		return r.made(e.X)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && (r.made(e.X) || r.made(e.Y))
	case *ast.CompositeLit:
		return slices.ContainsFunc(e.Elts, r.made)
	case *ast.CallExpr:
		name := types.ExprString(e.Fun)
		if name == "len" || strings.HasPrefix(name, "errors.") || strings.HasPrefix(name, "fmt.Errorf") {
			return false
		}
		method, _ := e.Fun.(*ast.SelectorExpr)
		return secretName.MatchString(name) || strings.Contains(name, "EncodeToString") ||
			slices.ContainsFunc(e.Args, r.made) || method != nil && r.made(method.X)
	}
	return false
}

// isConversion reports whether an operand has a conversion of bytes.
func isConversion(e ast.Expr) bool {
	if sum, ok := e.(*ast.BinaryExpr); ok && sum.Op == token.ADD {
		return isConversion(sum.X) || isConversion(sum.Y)
	}
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	_, array := call.Fun.(*ast.ArrayType)
	return array || types.ExprString(call.Fun) == "string"
}

// isConstant reports whether an operand is a literal, nil, or a length.
func isConstant(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.CompositeLit:
		return !slices.ContainsFunc(e.Elts, func(e ast.Expr) bool { return !isConstant(e) })
	case *ast.Ident:
		return e.Name == "nil" || e.Name == "true" || e.Name == "false"
	case *ast.CallExpr:
		_, conversion := e.Fun.(*ast.ArrayType)
		return types.ExprString(e.Fun) == "len" || conversion && len(e.Args) == 1 && isConstant(e.Args[0])
	case *ast.UnaryExpr:
		return isConstant(e.X)
	case *ast.ParenExpr:
		return isConstant(e.X)
	}
	return false
}
