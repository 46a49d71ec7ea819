package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

func TestTheMemoryBeyondTheWindowIsWrittenInOneWay(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]dedup.Retention{
		"limits: {attempts: 3}": {}, "limits: {remember_signatures: off}": {For: -1}, `limits: {remember_signatures: "off"}`: {For: -1},
		"limits: {remember_signatures: {for: 30d}}":            {For: 30 * 24 * time.Hour},
		"limits: {remember_signatures: {for: 90d, max: 1000}}": {For: 90 * 24 * time.Hour, Max: 1000},
	} {
		set, err := source{}.parse("eyelet.yaml", []byte(text+"\n"))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := set.storeOptions(nil).Remember; got != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"limits: {remember_signatures: on}":             `limits.remember_signatures is "on", want off or a mapping`,
		"limits: {remember_signatures: 90d}":            `limits.remember_signatures is "90d", want off or a mapping`,
		"limits: {remember_signatures: {for: 1h}}":      "less than a day",
		"limits: {remember_signatures: {for: 0d}}":      "limits.remember_signatures.for is 0",
		"limits: {remember_signatures: {max: -1}}":      "limits.remember_signatures.max is less than 0",
		"limits: {remember_signatures: {days: 90}}":     `unknown setting "days"`,
		"limits:\n  remember_signatures: [90d, 1000]\n": "eyelet.yaml:2",
	} {
		_, err := source{}.parse("eyelet.yaml", []byte(text+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "eyelet.yaml:") {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAProducerIsForgottenWhereItSaysSo(t *testing.T) {
	t.Parallel()
	file := configured(t, "limits: {remember_signatures: {for: 30d}}\n")
	p := &program{Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}
	if code := p.Run(t.Context(), "config", "show", "--config", file); code != exitOK {
		t.Fatal(p.Err)
	}
	shown := p.Out.(*bytes.Buffer).String()
	for _, want := range []string{"remember_signatures: on", "for: 30d", "max: 2000000"} {
		if !strings.Contains(shown, want) {
			t.Errorf("%s is not shown:\n%s", want, shown)
		}
	}
	dir := settingsFolder(t)
	plan, _, err := planOf(t, dir, "preset: razorpay, secret: the-kettle-is-on-17, remember_signatures: off")
	if err != nil || !plan.Producers[0].Forgets {
		t.Errorf("%+v, %v", plan, err)
	}
	plan, _, err = planOf(t, dir, "preset: razorpay, secret: the-kettle-is-on-17, event_time: json:payload.at")
	if err != nil || plan.Producers[0].Forgets || plan.Producers[0].EventTime.String() != "json:payload.at" {
		t.Errorf("%+v, %v", plan, err)
	}
	if _, _, err := planOf(t, dir, "preset: razorpay, secret: the-kettle-is-on-17, remember_signatures: never"); err == nil {
		t.Error("another word is taken")
	}
}
