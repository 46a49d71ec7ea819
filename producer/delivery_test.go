package producer

import "testing"

func TestExtractorsShareTheJSONCheckOfTheBody(t *testing.T) {
	t.Parallel()
	d := delivery(hook, `{"a":"1","b":"2"}`)
	for _, want := range []string{"1", "2"} {
		name := map[string]string{"1": "a", "2": "b"}[want]
		if got, err := JSON(name).Extract(d); got != want || err != nil {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	first := d.document()
	if d.document() != first {
		t.Error("the same body is checked twice")
	}
	d.Body = []byte(`{"a":"3","b":"4"}`)
	if got, err := JSON("a").Extract(d); got != "3" || err != nil {
		t.Errorf("another body of the same length: got %q, %v", got, err)
	}
	d.Body = nil
	if got, err := JSON("a").Extract(d); got != "" || err != nil {
		t.Errorf("no body: got %q, %v", got, err)
	}
}
