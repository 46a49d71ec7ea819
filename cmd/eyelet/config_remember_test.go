package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRememberSignaturesOff(t *testing.T) {
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
	const never = "preset: razorpay, secret: the-kettle-is-on-17, remember_signatures: never"
	if _, _, err := planOf(t, dir, never); err == nil {
		t.Error("another word is accepted")
	}
}
