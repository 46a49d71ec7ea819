package conform

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// endless is a connection whose other side never ends its head.
type endless struct {
	net.Conn
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	text := "X: conform\r\n"
	if e.read == 0 {
		text = "HTTP/1.1 200 OK\r\n"
	}
	n := copy(p, text)
	e.read += n
	return n, nil
}

func TestAResponseIsBounded(t *testing.T) {
	t.Parallel()
	conn := &endless{}
	if a := readAnswer(readerOf(conn)); a.err == nil || conn.read > maxResponse {
		t.Errorf("%v after %d bytes", a, conn.read)
	}
}

// TestACommandLeavesProgramsRunning, such as the one that it starts again.
func TestACommandLeavesProgramsRunning(t *testing.T) {
	t.Parallel()
	began := time.Now()
	out, err := (&session{}).command(t.Context(), "sleep 20 & echo $NAME", "NAME=conform")
	if took := time.Since(began); err != nil || string(out) != "conform\n" || took > 10*time.Second {
		t.Errorf("%q, %v after %s", out, err, took)
	}
}

// TestACommandThatFailsSaysWhy: its standard error is not that of the kit, which a program in the
// background would keep open.
func TestACommandThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	_, err := (&session{}).command(t.Context(), "echo no disk >&2; exit 3")
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no disk") {
		t.Error(err)
	}
}

func TestEffectsAreLinesOrElements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"":                              0,
		"x x\ny\nx":                     2,
		"[10:00] x, again x\n":          1,
		`["x","y",{"id":"x","of":"x"}]`: 2,
		"[\n {\n  \"id\": \"x\",\n  \"of\": \"x\"\n }\n]\n": 1,
		`{"id":"x","of":"x"}` + "\n":                        1,
	} {
		if n := countOf([]byte(text), "x"); n != want {
			t.Errorf("%q has %d effects, want %d", text, n, want)
		}
	}
}

func TestCredentialsAreHidden(t *testing.T) {
	t.Setenv("CONFORM_TEST_TOKEN", "of the environment")
	file := filepath.Join(t.TempDir(), "profile.yaml")
	writeFile(t, file, `
scheme: bearer
secret: 6f6374657473206f66206120746f6b656e
encoding: hex
fields: {Authorization: Basic Zm9yIGFueW9uZQ==, X-Api-Key: a b c, X-Other: "${CONFORM_TEST_TOKEN}", X-Author: Ada}
`)
	p, err := ReadProfile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{p: p}
	for text, want := range map[string]string{
		"Authorization: Basic Zm9yIGFueW9uZQ==": "Authorization: [secret]",
		"you sent Zm9yIGFueW9uZQ==":             "you sent [secret]",
		"X-Api-Key: a b c":                      "X-Api-Key: [secret]",
		"X-Other: of the environment":           "X-Other: [secret]",
		"Bearer octets of a token":              "Bearer [secret]",
		"Bearer octets of a t0000":              "Bearer [most of a secret]0000",
		"Bearer octets o":                       "Bearer [half of a secret]",
		"X-Author: Ada":                         "X-Author: Ada",
	} {
		if got := s.withoutSecret(text); got != want {
			t.Errorf("%s is reported as %s, want %s", text, got, want)
		}
	}
}

func TestTextsDoNotObeyATarget(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	r := Report{Results: []Result{{Verdict: Fails, Check: "C101", Reason: "to \u009b2J\x1b[2J\nand"}}}
	want := "to ?2J?[2J\n" + strings.Repeat(" ", 27) + "and\n"
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), want) {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func TestMistakesInProfiles(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"base: nowhere":                                        "no such file, nor a built-in profile (cloudevents, ",
		"scheme: hmac\nsecret: ${NO_SECRET}":                   "the secret is empty: set ${NO_SECRET} in the",
		"scheme: hmac":                                         "the secret is empty",
		"scheme: rfc9421\nsignature: {alg: rot13}":             `alg "rot13" needs the file of a key`,
		"scheme: morse":                                        `scheme "morse" is not hmac`,
		"scheme: none\nschema: x":                              "line 2: field schema not found",
		"scheme: none\nclaims: [rfc1149]":                      `there is no document "rfc1149" to claim`,
		"scheme: none\nsettle: -2s":                            "cannot be negative",
		"scheme: none\neffects: {}":                            "effects is one of file, url and command",
		"scheme: none\nkey: id":                                `key "id" is neither field:NAME nor body:MEMBER`,
		"scheme: none\nkey: field:X-Id":                        "the fields of the profile have none of that name",
		"scheme: none\nmembers: [explode]":                     `member "explode" is neither wait nor fail`,
		"scheme: none\nother: {keyid: k}":                      "another credential has neither a secret nor a key",
		"scheme: none\neffects: {file: f, url: u, command: c}": "effects is one of file, url and command",
	} {
		file := filepath.Join(t.TempDir(), "profile.yaml")
		writeFile(t, file, text)
		p, err := ReadProfile(file)
		if err == nil {
			_, err = Run(t.Context(), Options{Role: Consumer, URL: "http://127.0.0.1:1/", Profile: p})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// TestAcceptSignatureIsADictionary with white space wherever it may be.
func TestAcceptSignatureIsADictionary(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]bool{
		`sig1=("@method" "content-digest";sf);created;keyid="k"`: true,
		`sig1=( "@method"  "x"; key="a" ); created`:              true,
		`a=("@path"), b=()`: true,
		`sig1="@method"`:    false,
		`sig1=(@method)`:    false,
	} {
		if acceptSignature.MatchString(value) != want {
			t.Errorf("%s: want %v", value, want)
		}
	}
}
