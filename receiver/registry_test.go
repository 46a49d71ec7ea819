package receiver

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/producer"
)

func do(context.Context, Event[[]byte]) error { return nil }

func say(context.Context, Event[[]byte]) (Response, error) { return Response{}, nil }

// header extracts a header field.
type header string

func (h header) Extract(d *producer.Delivery) (string, error) {
	return d.Request.Header.Get(string(h)), nil
}
func (h header) Consumes() []string { return []string{strings.ToLower(string(h))} }
func (h header) String() string     { return "header:" + string(h) }

// bodyText extracts the whole body.
type bodyText struct{}

func (bodyText) Extract(d *producer.Delivery) (string, error) { return string(d.Body), nil }
func (bodyText) Consumes() []string                           { return nil }
func (bodyText) String() string                               { return "body" }

var twoProducers = []producer.Producer{
	{Name: "gh"},
	{Name: "grid", Split: func(*producer.Delivery) ([]producer.Item, error) { return nil, nil }},
}

func TestRegistryRefusesErrors(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		handlers []Handler
		want     string // in the error; empty for none
	}{
		{"no handlers", nil, ""},
		{"several patterns that overlap", []Handler{On("gh", "push", do), On("gh", "pu*", do), On("gh", "*", do)}, ""},
		{"unknown producer", []Handler{On("hg", "*", do)},
			`handler "hg/*": unknown producer "hg" (there are: gh, grid)`},
		{"empty pattern", []Handler{On("gh", "", do)}, `the pattern is empty`},
		{"star inside", []Handler{On("gh", "a*b", do)}, `bad pattern "a*b"`},
		{"two stars", []Handler{On("gh", "a**", do)}, `bad pattern "a**"`},
		{"default names that meet", []Handler{On("gh", "push", do), On("gh", "push", do)},
			`name one of them with Named`},
		{"chosen names that meet", []Handler{On("gh", "a", do).Named("x"), On("grid", "b", do).Named("x")},
			`handler "x": another handler has this name`},
		{"same pattern, own names", []Handler{On("gh", "push", do), On("gh", "push", do).Named("x")}, ""},
		{"nil function of On", []Handler{On[[]byte]("gh", "*", nil)}, `handler "gh/*": the function is nil`},
		{"nil function of Answer", []Handler{Answer[[]byte]("gh", "*", nil)}, `the function is nil`},
		{"zero value", []Handler{{}}, `make one with On, Answer or Inline`},
		{"nil middleware", []Handler{On("gh", "*", do).With(nil)}, `middleware 1 is nil`},
		{"long name", []Handler{On("gh", "*", do).Named(strings.Repeat("x", 257))}, `257 bytes`},
		{"name with a line feed", []Handler{On("gh", "*", do).Named("a\nb")}, `cannot be printed`},
		{"name that is no UTF-8", []Handler{On("gh", "*", do).Named("a\xff")}, `cannot be printed`},
		{"answer beside on", []Handler{Answer("gh", "a", say), On("gh", "a*", do)},
			`an Answer handler takes its events alone, and both would take "a"`},
		{"answer beside answer", []Handler{Answer("gh", "a*", say), Answer("gh", "ab*", say)}, `both would take "ab*"`},
		{"answer beside on of another type", []Handler{Answer("gh", "a", say), On("gh", "b*", do)}, ""},
		{"answer beside on of another producer", []Handler{Answer("gh", "a", say), On("grid", "a", do)}, ""},
		{"answer for a producer of batches", []Handler{Answer("grid", "a", say)}, `sends batches`},
		{"retired answer for a producer of batches",
			[]Handler{Answer("grid", "a", say).Retired(), On("grid", "*", do)}, ""},
		{"answer in a lane", []Handler{Answer("gh", "a", say).Lane(header("X"))}, `must not have a lane`},
		{"answer beside what takes the rest", []Handler{Answer("gh", "a", say), On("gh", "*", do).Otherwise()}, ""},
		{"answer that takes the rest", []Handler{On("gh", "a", do), Answer("gh", "*", say).Otherwise()}, ""},
		{"two take the rest", []Handler{On("gh", "a*", do).Otherwise(), On("gh", "*", do).Otherwise()},
			`both are Otherwise and match "a*"`},
		{"two take different rests", []Handler{On("gh", "a*", do).Otherwise(), On("gh", "b*", do).Otherwise()}, ""},
		{"no rest is left", []Handler{On("gh", "*", do), On("gh", "a*", do).Named("x").Otherwise()},
			`handler "x": it never runs`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := newRegistry(tt.handlers, twoProducers, decodeJSON)
			if tt.want == "" {
				if err != nil || b == nil {
					t.Fatalf("got error %v, want none", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got error %v, want one with %q", err, tt.want)
			}
		})
	}
}

func TestRegistryMatches(t *testing.T) {
	t.Parallel()
	b, err := newRegistry([]Handler{
		On("gh", "push", do),
		On("gh", "p*", do),
		Answer("gh", "quote", say),
		On("gh", "order.*", do),
		On("gh", "*", do).Otherwise(),
		On("grid", "*", do),
	}, twoProducers, decodeJSON)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		producer, typ string
		on            []string
		answer        string
	}{
		{"gh", "push", []string{"gh/push", "gh/p*"}, ""},
		{"gh", "p", []string{"gh/p*"}, ""},
		{"gh", "Push", []string{"gh/*"}, ""},
		{"gh", "quote", nil, "gh/quote"},
		{"gh", "quotes", []string{"gh/*"}, ""},
		{"gh", "order.", []string{"gh/order.*"}, ""},
		{"gh", "order", []string{"gh/*"}, ""},
		{"gh", "", []string{"gh/*"}, ""},
		{"grid", "", []string{"grid/*"}, ""},
		{"nobody", "push", nil, ""},
	}
	for _, tt := range tests {
		on, answer := b.match(tt.producer, tt.typ, nil)
		var names []string
		for _, h := range on {
			names = append(names, h.name)
			if b.byName[h.name] != h {
				t.Errorf("byName[%q] is another handler", h.name)
			}
		}
		if d := cmp.Diff(tt.on, names); d != "" {
			t.Errorf("%s %q: -want +got\n%s", tt.producer, tt.typ, d)
		}
		got := ""
		if answer != nil {
			got = answer.name
		}
		if got != tt.answer {
			t.Errorf("%s %q: answered by %q, want %q", tt.producer, tt.typ, got, tt.answer)
		}
	}
	if b.byName["gh/gone"] != nil {
		t.Error("found a handler that does not exist")
	}
}

// words are all event types of up to three letters over an alphabet of three. Patterns use two
// of them, so with the third letter there is always a type that no other pattern names.
func words() []string {
	all := []string{""}
	for from := 0; len(all[from]) < 3; from++ {
		for _, c := range "abz" {
			all = append(all, all[from]+string(c))
		}
	}
	return all
}

func TestPatternsOverlapWhenBothMatchAType(t *testing.T) {
	t.Parallel()
	types := words()
	pattern := rapid.StringMatching(`[ab]{0,2}\*|[ab]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		p, q := pattern.Draw(t, "p"), pattern.Draw(t, "q")
		if err := checkPattern(p); err != nil {
			t.Fatal(err)
		}
		both, all := false, true
		for _, typ := range types {
			both = both || dedup.MatchType(p, typ) && dedup.MatchType(q, typ)
			all = all && (dedup.MatchType(p, typ) || !dedup.MatchType(q, typ))
		}
		if in, got := intersection(p, q); got != both {
			t.Fatalf("intersection(%q, %q) = %q, %v", p, q, in, got)
		}
		if got := patternCovers(p, q); got != all {
			t.Fatalf("patternCovers(%q, %q) = %v", p, q, got)
		}
	})
}

// It compares the result of newRegistry for random handlers with the conflicts of every type.
func TestAnswerHandlersMatchAlone(t *testing.T) {
	t.Parallel()
	types := words()
	pattern := rapid.StringMatching(`[ab]{0,2}\*|[ab]{1,2}`)
	rapid.Check(t, func(t *rapid.T) {
		var hs []Handler
		for i, n := 0, rapid.IntRange(1, 4).Draw(t, "n"); i < n; i++ {
			h := On("gh", pattern.Draw(t, "pattern"), do)
			if rapid.Bool().Draw(t, "answer") {
				h = Answer("gh", h.pattern, say)
			}
			h.other = rapid.Bool().Draw(t, "otherwise")
			hs = append(hs, h.Named(string(rune('A'+i))))
		}
		clash := false
		for _, typ := range types {
			clash = clash || clashes(hs, typ)
		}
		for _, h := range hs {
			clash = clash || h.other && idle(h, hs, types)
		}
		_, err := newRegistry(hs, twoProducers, decodeJSON)
		if (err != nil) != clash {
			t.Fatalf("error %v, but clash is %v", err, clash)
		}
	})
}

// clashes reports whether the handlers of a type conflict, as documented.
func clashes(hs []Handler, typ string) bool {
	direct, answers, rest := 0, 0, 0
	for _, h := range hs {
		if !h.matches(typ) {
			continue
		}
		if h.other {
			rest++
			continue
		}
		direct++
		if h.answer {
			answers++
		}
	}
	return answers > 0 && direct > 1 || rest > 1
}

// idle reports whether an Otherwise handler gets no event at all.
func idle(other Handler, hs []Handler, types []string) bool {
	for _, typ := range types {
		taken := false
		for _, h := range hs {
			taken = taken || !h.other && h.matches(typ)
		}
		if other.matches(typ) && !taken {
			return false
		}
	}
	return true
}

func TestLaneOfSeparatesHandlersAndValues(t *testing.T) {
	t.Parallel()
	d := &producer.Delivery{Request: &http.Request{Header: http.Header{"Shop": {"7"}}}, Body: []byte("whole")}
	it := producer.Item{Body: []byte("item")}
	lane := func(h Handler, it producer.Item) string {
		t.Helper()
		b, err := newRegistry([]Handler{h}, twoProducers, decodeJSON)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range b.byName {
			l, err := h.laneOf(d, it, "")
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		return ""
	}
	if got := lane(On("gh", "*", do), it); got != "" {
		t.Errorf("a handler without a lane has %q", got)
	}
	if got := lane(On("gh", "*", do).Lane(header("Absent")), it); got != "" {
		t.Errorf("an event without a value is in lane %q", got)
	}
	seen := map[string]string{}
	for name, h := range map[string]Handler{
		"handler":          On("gh", "*", do).Lane(header("Shop")),
		"other handler":    On("gh", "*", do).Lane(header("Shop")).Named("x"),
		"other producer":   On("grid", "*", do).Lane(header("Shop")),
		"value of an item": On("gh", "*", do).Lane(bodyText{}),
	} {
		l := lane(h, it)
		if other, ok := seen[l]; ok || l == "" {
			t.Errorf("%q has the lane %q of %q", name, l, other)
		}
		seen[l] = name
	}
	again, whole := On("gh", "*", do).Lane(bodyText{}), producer.Item{}
	if lane(again, it) == lane(again, whole) {
		t.Error("the lane depends on the body of the batch, not on that of the item")
	}
	if first, second := lane(again, it), lane(again, it); first != second {
		t.Error("the lane is not stable")
	}
}
