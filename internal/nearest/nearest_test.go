package nearest

import "testing"

func TestWord(t *testing.T) {
	t.Parallel()
	known := []string{"stripe", "svix", "square", "ACME"}
	for word, want := range map[string]string{
		"strpe": "stripe", "Stirpe": "stripe", "svx": "svix", "github": "", "": "", "acme": "ACME",
	} {
		if got := Word(word, known); got != want {
			t.Errorf("%q is nearest to %q, want %q", word, got, want)
		}
	}
	for pair, want := range map[[2]string]int{
		{"ab", "ba"}: 1, {"", "abc"}: 3, {"kitten", "sitting"}: 3, {"/webhooks/GH", "/webhooks/gh"}: 0,
	} {
		if got := Distance(pair[0], pair[1]); got != want {
			t.Errorf("from %q to %q: %d, want %d", pair[0], pair[1], got, want)
		}
	}
}
