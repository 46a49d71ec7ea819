package main

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/publicurl"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// sample makes a delivery like the vendor's, signed for the URL that the vendor would call. It
// moves the path of from.url into the recording. A given body replaces the vendor's.
func (f *sendCmd) sample(ctx context.Context, vendor preset.Preset, kind string, given []byte, from *sender) (
	*replay.Recording, error) {
	set, err := f.sampleSettings(vendor, from)
	if err != nil {
		return nil, err
	}
	from.keyID, from.form = f.keyID, f.form
	if slices.Contains(vendor.Uses, "roots") { // of the vendor's certificates
		f.eprintf("a receiver refuses this sample unless it trusts your key in place of the certificate of %s, "+
			"which Eyelet reads only from the vendor's hosts\n", vendor.Name)
	}
	change := func(body []byte) ([]byte, error) {
		if given != nil {
			body = given
		}
		return f.apply(ctx, f.program, body)
	}
	rec, base, err := from.vendorDelivery(vendor, set, kind, f.id, change) //nolint:contextcheck // nothing is sent
	if err == nil {
		from.url = base
	}
	return rec, err
}

// vendorDelivery makes a delivery of a vendor whose body is changed before it is signed. It returns
// it with the base of the URL to send it to.
func (from *sender) vendorDelivery(vendor preset.Preset, set preset.Settings, kind, id string,
	change func(body []byte) ([]byte, error)) (rec *replay.Recording, base string, err error) {
	to, err := url.Parse(from.url)
	if err != nil {
		return nil, "", usage.Errorf("", "--url is not a URL")
	}
	if to.Path == "" {
		to.Path = "/webhooks/" + set.Name
	}
	set.SigningKey, set.SigningKeyID = from.private, from.keyID
	r, body, err := vendor.Draft(set, vendorURL(to, from), kind, id, from.now)
	if err != nil {
		return nil, "", usage.Errorf(sampleHint(vendor), "%v", firstLine(err))
	}
	if body, err = change(body); err != nil {
		return nil, "", err
	}
	if from.form && vendor.Open(set).FormMember == "" {
		return nil, "", usage.Errorf("leave out --form", "preset %s has no deliveries with JSON in a form", vendor.Name)
	} else if from.form {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if body, err = vendor.Sign(set, r, body, from.now); err != nil {
		return nil, "", usage.Errorf(sampleHint(vendor), "%v", firstLine(err))
	}
	// A proxy may remove a prefix of the vendor's URL, and the sample may add to its query.
	to.RawQuery = r.URL.RawQuery
	target := to.RequestURI()
	return recordingOf(vendor.Name, target, r, body), (&url.URL{Scheme: to.Scheme, Host: to.Host}).String(), nil
}

// vendorURL returns the URL that the vendor would call: the producer's, or the one to send to below
// the public base.
func vendorURL(to *url.URL, from *sender) string {
	if from.producer != nil && from.producer.URL != "" {
		return from.producer.URL
	}
	public, err := url.Parse(from.signedURL)
	if from.signedURL == "" || err != nil || public.Host == "" {
		return to.String()
	}
	return publicurl.Of(public, to).String()
}

// sampleSettings returns the settings of the producer in the configuration, or of the flags.
func (f *sendCmd) sampleSettings(vendor preset.Preset, from *sender) (preset.Settings, error) {
	if from.config != nil {
		if len(f.set) > 0 {
			return preset.Settings{}, usage.Errorf("remove one of them", "--set and --producer are both given")
		}
		if from.config.Preset != vendor.Name {
			return preset.Settings{}, usage.Errorf("choose another --producer", "producer %q is not of the preset %s",
				from.config.Name, vendor.Name)
		}
		set := from.config.PresetSettings
		set.Name = from.config.Name
		return set, nil
	}
	if len(f.set) == 0 && from.secret == "" && (from.private == nil || !vendor.KeySigned()) {
		hint := "run `eyelet listen 3000 " + vendor.Name + "`, or give --secret-file, --set, or --config with " +
			"--producer; " + sampleHint(vendor)
		return preset.Settings{}, usage.Errorf(hint, "there is no secret to sign with")
	}
	set, err := config.Source{Environ: f.Environ}.PresetSettings(vendor.Name, f.set)
	if from.secret != "" {
		set.Secrets = append(set.Secrets, from.secret)
	}
	set.Name = vendor.Name
	return set, err
}

func sampleHint(vendor preset.Preset) string {
	if vendor.KeySigned() {
		return "--key signs with a key of yours, for a receiver that trusts it; preset " + vendor.Name +
			" has the settings " + strings.Join(vendor.Uses, ", ")
	}
	return "preset " + vendor.Name + " has the settings " + strings.Join(vendor.Uses, ", ")
}

// firstLine returns the first of joined errors.
func firstLine(err error) string {
	first, _, _ := strings.Cut(err.Error(), "\n")
	return first
}
