package main

import (
	"errors"
	"net/url"
	"strings"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
	"github.com/eyelet-dev/eyelet/replay"
)

// sample makes a delivery like the vendor's, signed for the URL that the vendor would call. It
// moves the path of as.url into the recording.
func (f *sendCmd) sample(vendor preset.Preset, kind string, as *sender) (*replay.Recording, error) {
	set, err := f.sampleSettings(vendor, as)
	if err != nil {
		return nil, err
	}
	to, err := url.Parse(as.url)
	if err != nil {
		return nil, usage.Errorf("", "--url is not a URL")
	}
	if to.Path == "" {
		to.Path = "/webhooks/" + set.Name
	}
	r, body, err := vendor.Sample(set, called(to, as), kind, f.id, as.now)
	if err != nil {
		return nil, usage.Errorf(sampleHint(vendor), "%v", firstOf(err))
	}
	// A proxy may remove a prefix of the vendor's URL, and the sample may add to its query.
	to.RawQuery = r.URL.RawQuery
	as.url = (&url.URL{Scheme: to.Scheme, Host: to.Host}).String()
	return recordingOf(vendor.Name, to.RequestURI(), r, body), nil
}

// called returns the URL that the vendor would call: the producer's, or the one to send to below
// the public base.
func called(to *url.URL, as *sender) string {
	if as.producer != nil && as.producer.URL != "" {
		return as.producer.URL
	}
	public, err := url.Parse(as.signedURL)
	if as.signedURL == "" || err != nil || public.Host == "" {
		return to.String()
	}
	address := *to
	address.Scheme, address.Host, address.Path = public.Scheme, public.Host,
		strings.TrimSuffix(public.Path, "/")+to.Path
	return address.String()
}

// sampleSettings returns the settings of the producer in the configuration, or of the flags.
func (f *sendCmd) sampleSettings(vendor preset.Preset, as *sender) (preset.Settings, error) {
	if as.config != nil {
		if len(f.set) > 0 {
			return preset.Settings{}, usage.Errorf("remove one of them", "--set and --producer are both given")
		}
		if as.config.Preset != vendor.Name {
			return preset.Settings{}, usage.Errorf("choose another --producer", "producer %q is not of the preset %s",
				as.config.Name, vendor.Name)
		}
		set := as.config.PresetSettings
		set.Name = as.config.Name
		return set, nil
	}
	if len(f.set) == 0 && as.secret == "" {
		hint := "give --secret-file, --set, or --config with --producer; " + sampleHint(vendor)
		return preset.Settings{}, usage.Errorf(hint, "there is no secret to sign with")
	}
	set, err := config.Source{Environ: f.Environ}.PresetSettings(vendor.Name, f.set)
	if as.secret != "" {
		set.Secrets = append(set.Secrets, as.secret)
	}
	set.Name = vendor.Name
	return set, err
}

func sampleHint(vendor preset.Preset) string {
	return "preset " + vendor.Name + " has the settings " + strings.Join(vendor.Uses, ", ")
}

// firstOf returns the first of joined errors.
func firstOf(err error) error {
	for {
		many, ok := errors.AsType[interface {
			error
			Unwrap() []error
		}](err)
		if !ok || len(many.Unwrap()) == 0 {
			return err
		}
		err = many.Unwrap()[0]
	}
}
