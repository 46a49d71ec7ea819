package producer

import (
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eyelet-dev/eyelet/verify"
)

func condition(t testing.TB, text string) Condition {
	t.Helper()
	c, err := ParseCondition(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return c
}

func TestConditionsHold(t *testing.T) {
	t.Parallel()
	const body = `{"s":"paid","empty":"","null":null,"n":10,"big":12345678901234567890123,"small":-0.50,"zero":-0e7,
		"huge":1e999999999,"wild":1e1000000000,"yes":true,"no":false,"text":"10","truth":"true","object":{"a":"b"},
		"twice":1,"twice":1,"half":"\ud800","a b":"spaced","long":"` + "%s" + `","uni":"ä😀\n"}`
	for text, want := range map[string]bool{
		`json:s == "paid"`: true, `json:s == "pai"`: false, `json:s != "paid"`: false, `json:s != "x"`: true,
		`json:s=="\u0070aid"`: true, `json:uni == "ä\ud83d\ude00\n"`: true,
		`json:s prefix "pa"`: true, `json:s prefix "aid"`: false, `json:s prefix "paid!"`: false,
		`json:s in ("x", "paid")`: true, `json:s in ("x")`: false, `json:s in ( "x" , 1,true )`: false,
		`json:n in ("10", 1e1)`: true, `json:n in ("10")`: false,
		`json:s exists`: true, `json:gone exists`: false, `json:empty exists`: false, `json:null exists`: false,
		`json:object exists`: false, `json:twice exists`: false, `json:half exists`: false, `json:long exists`: false,
		`json:gone == "x"`: false, `json:gone != "x"`: true, `json:twice == 1`: false, `json:twice != 1`: true,
		`json:gone < 1`: false, `json:gone >= 1`: false, `json:gone prefix "x"`: false, `json:gone in ("x", 1)`: false,
		`json:n == 10`: true, `json:n == 10.0`: true, `json:n == 1e1`: true, `json:n == 0.01E+3`: true,
		`json:n == 100`: false, `json:n == 1`: false, `json:n == -10`: false, `json:n != 11`: true,
		`json:n == "10"`: false, `json:text == 10`: false, `json:text == "10"`: true, `json:text < 11`: false,
		`json:text > 9`: false, `json:n < 10`: false, `json:n <= 10`: true, `json:n > 9.999`: true,
		`json:n >= 11`: false,
		`json:n < 9`:   false, `json:n < 100`: true, `json:n > -100`: true,
		`json:big == 12345678901234567890123`: true, `json:big == 12345678901234567890124`: false,
		`json:big < 12345678901234567890124`: true, `json:small == -0.5`: true, `json:small < -0.499`: true,
		`json:small > -0.501`: true, `json:small < 0`: true, `json:zero == 0`: true, `json:zero == 0.000`: true,
		`json:zero > -1`: true, `json:huge > 9e999999998`: true, `json:wild exists`: false, `json:wild > 0`: false,
		`json:yes == true`: true, `json:yes == false`: false, `json:no == false`: true, `json:no exists`: true,
		`json:truth == true`: false, `json:yes == "true"`: false, `json:yes prefix "t"`: false,
		`type == "order.paid"`: true, `type prefix "order."`: true, `type in ("a", "order.paid")`: true,
		`type exists`:             true,
		`header:X-Tier == "gold"`: true, `header:X-Twice exists`: false, `query:region == "eu"`: true,
		`const:a == "a"`: true, `"json:gone | header:X-Tier" == "gold"`: true, `"json:gone | json:n" == 10`: true,
		`"json:s + json:n" == "paid:10"`: true, `"json:twice | json:n" exists`: false, `"json:a b" == "spaced"`: true,
		`jwt:plan == "pro"`: true, `jwt:seats > 2`: true, `jwt:gone exists`: false,
		`not json:n == 10`: false, `not not json:n == 10`: true, `not json:gone exists`: true,
		`json:n == 1 or json:n == 10 and json:s == "x"`:          false,
		`json:n == 10 or json:n == 10 and json:s == "x"`:         true,
		`(json:n == 10 or json:n == 10) and json:s == "x"`:       false,
		`not json:n == 1 and json:s == "x"`:                      false,
		`not (json:n == 1 and json:s == "x")`:                    true,
		`(((json:n==10)))and(json:s=="paid")`:                    true,
		"json:n\n == 10\tand json:s == \"paid\" and type exists": true,
	} {
		c := condition(t, text)
		d := delivery(hook+"?region=eu", fmt.Sprintf(body, strings.Repeat("x", maxValue+1)),
			"X-Tier", "gold", "X-Twice", "1", "X-Twice", "1")
		d.Identity.Claims = []byte(`{"plan":"pro","seats":3}`)
		if got := c.Holds(d, "order.paid"); got != want {
			t.Errorf("%s: %t", text, got)
		}
		if c.String() != text {
			t.Errorf("%s is written as %s", text, c)
		}
	}
	if !(Condition{}).Holds(delivery(hook, ""), "") {
		t.Error("the zero value does not hold")
	}
	for _, text := range []string{`json:n == 10`, `json:n exists`, `type exists`, `json:n != 10 and json:n < 11`} {
		if condition(t, text).Holds(delivery(hook, "not JSON"), "") {
			t.Errorf("%s holds without a value", text)
		}
	}
}

func TestMistakesInConditionsHaveColumns(t *testing.T) {
	t.Parallel()
	many := func(n int) string { return strings.Repeat("type exists and ", n-1) + "type exists" }
	nested := func(n int) string { return strings.Repeat("(", n) + "type exists" + strings.Repeat(")", n) }
	for text, want := range map[string]string{
		``:                              "column 1: want an extractor",
		`type`:                          "column 5: want one of == !=",
		`type = "a"`:                    "column 6: want one of == !=",
		`type or "a"`:                   "column 6: want one of == !=",
		`type == paid`:                  `column 9: write a text in quotes: "paid"`,
		`type == 'paid'`:                `column 9: write a text in quotes: "'paid'"`,
		`json:ä == "ä" or type == paid`: "column 26: write a text in quotes",
		`type == "paid`:                 "column 9: a text is a JSON string",
		`type == "\x"`:                  "column 9: a text is a JSON string",
		`type == "\ud800"`:              "column 9: a text is a JSON string of Unicode",
		`type == `:                      "column 9: want a value",
		`type == )`:                     "column 9: want a value",
		`type == ""`:                    "column 9: no value is empty: test with exists",
		`json:a == null`:                "column 11: null is no value: write not EXTRACTOR exists",
		`json:a == 01`:                  "column 11: write a text in quotes",
		`json:a == +1`:                  "column 11: write a text in quotes",
		`json:a == 1e9999999999`:        "column 11: an exponent has at most nine digits",
		`json:a < "1"`:                  "column 10: < compares numbers",
		`json:a prefix 1`:               "column 15: prefix compares texts",
		`type == 1`:                     `column 9: what it reads is always text: write "1"`,
		`header:X == true`:              `column 13: what it reads is always text: write "true"`,
		`"header:X | query:x" < 1`:      "column 24: what it reads is always text",
		`"json:a + json:b" in ("a", 1)`: "column 28: what it reads is always text",
		`type in "a"`:                   `column 9: want a list`,
		`type in ()`:                    "column 10: want a value",
		`type in ("a" "b")`:             `column 14: want "," or ")"`,
		`type in ("a",)`:                "column 14: want a value",
		`type in ("a"`:                  `column 13: want "," or ")"`,
		`"paid" == type`:                `column 1: extractor "paid": want KIND:NAME`,
		`status == "paid"`:              `column 1: extractor "status": want KIND:NAME`,
		`json:items.*.id == "a"`:        "column 1: extractor path",
		`"json:a == 1`:                  "column 1: a text is a JSON string",
		`type exists type exists`:       `column 13: want "and", "or" or the end`,
		`type exists)`:                  `column 12: want "and", "or" or the end`,
		`(type exists`:                  `column 13: want "and", "or" or ")"`,
		`type exists and`:               "column 16: want an extractor",
		`not`:                           "column 4: want an extractor",
		`type exists AND type exists`:   `column 13: want "and", "or" or the end`,
		strings.Repeat("json:a.b.c.d.e exists and ", 16) + "type exists":     "",
		strings.Repeat("json:a.b.c.d.e exists and ", 16) + "json:a.b exists": "column 417: more than 64 dots",
		many(maxClauses):                          "",
		many(maxClauses + 1):                      "column 2049: more than 128 tests",
		nested(maxNesting - 1):                    "",
		nested(maxNesting):                        "column 33: nested deeper than 32",
		strings.Repeat("not ", 100):               "column 129: nested deeper than 32",
		"type exists" + strings.Repeat(" ", 4085): "",
		"type exists" + strings.Repeat(" ", 4086): "at most 4,096 bytes",
		"type == \"\xff\"":                        "a condition is UTF-8",
	} {
		_, err := ParseCondition(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
}

// A condition may read what every proof binds, and a type that is in the key of the event.
func TestConditionsReadWhatIsBound(t *testing.T) {
	t.Parallel()
	hmac := func() *verify.HMAC {
		return &verify.HMAC{Headers: []string{"X-Sig"}, Secrets: verify.Secrets("a long secret of the sender")}
	}
	plain := Producer{Scheme: hmac(), Key: Header("X-Id"), Type: Header("X-Type")}
	keyed, trusting, timed, either, anyMode := plain, plain, plain, plain, plain
	topic := regexp.MustCompile(`^[a-z/]+$`)
	keyed.KeyedByType, trusting.KeyedByType, timed.KeyedByType, either.KeyedByType = topic, topic, topic, topic
	trusting.SameSigned = SameSignedOff
	signsTime := hmac()
	signsTime.TimestampHeaders, signsTime.Content = []string{"X-Time"}, "{timestamp}.{body}"
	timed.Scheme = signsTime
	either.Scheme = verify.Any{hmac(), signsTime}
	anyMode.Type, anyMode.Key, anyMode.Split, anyMode.LooseBinary = nil, nil, SplitCloudEvents, true
	items := anyMode
	items.LooseBinary = false
	unsigned := plain
	unsigned.Scheme = nil
	tier := []string{"x-tier"}
	for name, tt := range map[string]struct {
		p    Producer
		text string
		want []string
	}{
		"the body":             {plain, `json:a == 1 or json:b == 1`, nil},
		"a field":              {plain, `json:a == 1 and header:X-Tier == "a" or header:x-tier exists`, tier},
		"the query":            {plain, `query:a exists`, []string{"@query"}},
		"a form":               {plain, `form:a exists`, []string{"content-type"}},
		"a claim":              {plain, `jwt:a exists`, nil},
		"an unsigned type":     {plain, `type == "a"`, []string{"x-type"}},
		"a type in the key":    {keyed, `type == "a"`, nil},
		"its field":            {keyed, `header:X-Type == "a"`, []string{"x-type"}},
		"trusted identifiers":  {trusting, `type == "a"`, []string{"x-type"}},
		"a signed time":        {timed, `type == "a"`, []string{"x-type"}},
		"a time in some":       {either, `type == "a"`, []string{"x-type"}},
		"CloudEvents, loosely": {anyMode, `type == "a"`, []string{"ce-type"}},
		"items":                {items, `type == "a"`, nil},
		"nothing is signed":    {unsigned, `type == "a" and header:X-Tier == "b"`, nil},
	} {
		if got := condition(t, tt.text).Unbound(&tt.p); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// TestConditionsAreEvaluatedOnce counts what the largest condition reads: each of its tests reads
// its value at most once.
func TestConditionsAreEvaluatedOnce(t *testing.T) {
	t.Parallel()
	text := strings.Repeat(`const:a in ("x", "y") or `, maxClauses-1) + `const:a != "a"`
	c, reads := condition(t, text), 0
	for i := range c.root.parts {
		c.root.parts[i].from = counted{c.root.parts[i].from, &reads}
	}
	if c.Holds(delivery(hook, ""), "") || reads != maxClauses {
		t.Errorf("%d reads, want %d", reads, maxClauses)
	}
}

type counted struct {
	Extractor
	reads *int
}

func (c counted) Extract(d *Delivery) (string, error) { *c.reads++; return c.Extractor.Extract(d) }

func TestAConditionAllocatesNoMemory(t *testing.T) { //nolint:paralleltest // counts allocations
	d := delivery(hook, `{"a":"x","n":12.50,"b":true}`, "X-Tier", "gold")
	c := condition(t, `(header:X-Tier in ("x", "gold") and not type prefix "x") and json:n >= 12.5 and `+
		`json:n < 13 and json:b == true and json:gone != 7 and "header:X-None | header:X-Tier" exists`)
	if !c.Holds(d, "type") {
		t.Fatal("it does not hold")
	}
	values := testing.AllocsPerRun(100, func() {
		for range 2 {
			_, _ = JSON("n").Extract(d)
		}
	})
	parsed := testing.AllocsPerRun(100, func() {
		for range 2 {
			_ = JSON("n")
		}
	})
	if n := testing.AllocsPerRun(100, func() { c.Holds(d, "type") }); n > values-parsed+1 { // and that of b
		t.Errorf("%v allocations, want those of the values: %v", n, values-parsed+1)
	}
}

// tree is a condition of the differential test, with its reference evaluation.
type tree struct {
	text  string
	holds func(members map[string]any, typ string) bool
}

var (
	someNumbers = []string{"0", "-0", "1", "1.0", "10", "1e1", "-1", "0.1", "1e-1", "0.10",
		"123456789012345678901234567890", "123456789012345678901234567891", "1E+2", "100", "99.99", "-0.05", "5e-2"}
	someTexts = []string{`"a"`, `"ab"`, `"1"`, `"true"`, `"10"`, `"b"`}
)

func oneOf(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

// someValue returns a value of JSON.
func someValue(r *rand.Rand) string {
	number, text := oneOf(r, someNumbers...), oneOf(r, someTexts...)
	return oneOf(r, number, number, text, oneOf(r, "true", "false"))
}

// referenceCompares compares as the documentation says, by encoding/json and math/big.
func referenceCompares(got any, op, literal string) bool {
	var want any
	dec := json.NewDecoder(strings.NewReader(literal))
	dec.UseNumber()
	if dec.Decode(&want) != nil {
		panic(literal)
	}
	x, isNumber := got.(json.Number)
	y, ofNumber := want.(json.Number)
	if !isNumber || !ofNumber {
		text, isText := got.(string)
		start, _ := want.(string)
		return op == "==" && got == want || op == "prefix" && isText && strings.HasPrefix(text, start)
	}
	a, _ := new(big.Rat).SetString(x.String())
	b, _ := new(big.Rat).SetString(y.String())
	return map[string]bool{
		"==": a.Cmp(b) == 0, "<": a.Cmp(b) < 0, "<=": a.Cmp(b) <= 0, ">": a.Cmp(b) > 0, ">=": a.Cmp(b) >= 0,
	}[op]
}

func someTree(r *rand.Rand, depth int) tree {
	if depth > 0 && r.IntN(3) > 0 {
		a, b := someTree(r, depth-1), someTree(r, depth-1)
		switch r.IntN(3) {
		case 0:
			return tree{"not (" + a.text + ")", func(m map[string]any, typ string) bool { return !a.holds(m, typ) }}
		case 1:
			return tree{"(" + a.text + " and " + b.text + ")", func(m map[string]any, typ string) bool {
				return a.holds(m, typ) && b.holds(m, typ)
			}}
		}
		return tree{"(" + a.text + " or " + b.text + ")", func(m map[string]any, typ string) bool {
			return a.holds(m, typ) || b.holds(m, typ)
		}}
	}
	name := oneOf(r, "a", "b", "c", "d", "type")
	op := oneOf(r, "==", "!=", "in", "prefix", "exists", "<", "<=", ">", ">=")
	value, from := oneOf(r, someTexts...), name
	if name != "type" {
		from = "json:" + name
		if op != "prefix" {
			value = someValue(r)
		}
	}
	if strings.Contains("< <= > >=", op) {
		from, value = "json:"+oneOf(r, "a", "b"), oneOf(r, someNumbers...)
	}
	read := func(m map[string]any, typ string) any {
		if from == "type" {
			return typ
		}
		return m[strings.TrimPrefix(from, "json:")]
	}
	switch op {
	case "exists":
		return tree{from + " exists", func(m map[string]any, typ string) bool { return read(m, typ) != nil }}
	case "in":
		other := oneOf(r, someTexts...)
		return tree{from + " in (" + other + ", " + value + ")", func(m map[string]any, typ string) bool {
			got := read(m, typ)
			return referenceCompares(got, "==", other) || referenceCompares(got, "==", value)
		}}
	case "!=":
		return tree{from + " != " + value, func(m map[string]any, typ string) bool {
			return !referenceCompares(read(m, typ), "==", value)
		}}
	}
	return tree{from + " " + op + " " + value, func(m map[string]any, typ string) bool {
		return referenceCompares(read(m, typ), op, value)
	}}
}

// TestConditionsMeanWhatTheReferenceSays compares random conditions over random events with an
// evaluator that shares nothing with them.
func TestConditionsMeanWhatTheReferenceSays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(17, 1))
	held := 0
	for range 20_000 {
		one := someTree(r, 3)
		c := condition(t, one.text)
		var members []string
		for _, name := range []string{"a", "b", "c", "d"}[r.IntN(2):] {
			members = append(members, fmt.Sprintf("%q:%s", name, oneOf(r, someValue(r), someValue(r), "null")))
		}
		body, typ := "{"+strings.Join(members, ",")+"}", strings.Trim(oneOf(r, someTexts...), `"`)
		var event map[string]any
		dec := json.NewDecoder(strings.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&event); err != nil {
			t.Fatal(body, err)
		}
		got, want := c.Holds(delivery(hook, body), typ), one.holds(event, typ)
		if got != want {
			t.Fatalf("%s of %s, type %q: %t, want %t", one.text, body, typ, got, want)
		}
		if got {
			held++
		}
	}
	if held < 5_000 || held > 15_000 {
		t.Errorf("%d of 20,000 hold: the test compares too little", held)
	}
}

// FuzzCondition checks that every text is a condition or has a mistake at a column, that its text
// is the same condition, that it is either true or false of any event, and that != is not ==.
func FuzzCondition(f *testing.F) {
	for _, seed := range []string{
		`json:a == "paid" and not (type in ("a", "b") or header:X prefix "b")`, `"json:a | jwt:b" != true`,
		`json:a <= -0.5e-7 or json:a exists`, `json:a != "x"`, "(((",
		`type == "`, "not not not", `json:a == 1e999999999`,
	} {
		f.Add(seed, `{"a":1,"b":"x"}`, "paid")
	}
	column := regexp.MustCompile(`^column ([0-9]+): .|^a condition is UTF-8`)
	f.Fuzz(func(t *testing.T, text, body, typ string) {
		c, err := ParseCondition(text)
		if err != nil {
			if !column.MatchString(err.Error()) {
				t.Fatal(err)
			}
			return
		}
		again := condition(t, c.String())
		d := delivery(hook, body)
		got := c.Holds(d, typ)
		if again.Holds(d, typ) != got || c.Holds(d, typ) != got {
			t.Fatalf("%s is not one condition", text)
		}
		if len(c.root.values) == 1 && (c.root.op == "==" || c.root.op == "!=") {
			opposite := *c.root
			opposite.op = map[string]string{"==": "!=", "!=": "=="}[c.root.op]
			if opposite.holds(d, typ) == got {
				t.Fatalf("%s: == and != are both %t", text, got)
			}
		}
	})
}
