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

func TestDurationsAreShort(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0s", "500ms", "30s", "1m", "1m30s", "10m", "1h", "1h5m", "24h", "1h0m5s"} {
		d, err := ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseDuration(FormatDuration(d))
		if err != nil || back != d || len(FormatDuration(d)) > len(text) {
			t.Errorf("%s is shown as %q", text, FormatDuration(d))
		}
	}
}
