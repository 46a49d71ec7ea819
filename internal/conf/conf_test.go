package conf

import "testing"

func TestURLsAreShownWithoutCredentials(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:9000/deploy":          "http://127.0.0.1:9000/deploy",
		"https://token@h.example/x":             "https://<secret>@h.example/x",
		"https://u:p@h.example/x?a=1&b&c=2=3#f": "https://<secret>@h.example/x#f?a=<secret>&b=<secret>&c=<secret>",
		"order.*":                               "order.*",
		"a?b=c":                                 "a?b=c",
		"badger:./data":                         "badger:./data",
		"json:type":                             "json:type",
	} {
		if got := redactAddress(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
