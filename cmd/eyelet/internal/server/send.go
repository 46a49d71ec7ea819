package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/producer"
	"github.com/eyelet-dev/eyelet/replay"
)

// inProcess sends requests to the handler of the port of deliveries, without a connection: the port
// may have a certificate for another name, or be a socket that only a proxy reaches.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	in := r.Clone(r.Context())
	in.RequestURI, in.RemoteAddr = r.URL.RequestURI(), "127.0.0.1:0"
	in.Host = cmp.Or(r.Host, r.URL.Host)
	in.URL = &url.URL{Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	w := &memoryResponse{header: http.Header{}}
	p.handler.ServeHTTP(w, in)
	return &http.Response{
		StatusCode: cmp.Or(w.status, http.StatusOK), Header: w.header, Body: io.NopCloser(&w.body), Request: r,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// memoryResponse is a response in memory.
type memoryResponse struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (w *memoryResponse) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *memoryResponse) WriteHeader(status int) {
	if w.status == 0 && status >= http.StatusOK { // not an interim response
		w.status = status
	}
}

// Write implements http.ResponseWriter.
func (w *memoryResponse) Write(b []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(b)
}

// sender sends deliveries that were edited on the page.
type sender struct{ *Server }

// send sends the delivery of an event with another body, signed again as its producer does.
// An identifier in a field is a new one.
func (s sender) send(ctx context.Context, rec dedup.Record, body []byte) (inspect.Sent, error) {
	g := s.current.Load()
	named := func(p producer.Producer) bool { return p.Name == rec.Payload.Endpoint }
	i := slices.IndexFunc(g.Receiver.Producers, named)
	if i < 0 {
		return inspect.Sent{}, fmt.Errorf("there is no producer %q any more", rec.Payload.Endpoint)
	}
	signer, ok := g.Receiver.Producers[i].Scheme.(replay.Signer)
	if !ok || g.Receiver.Producers[i].Tenants.On() {
		return inspect.Sent{}, fmt.Errorf("producer %q cannot be signed for: only it or a tenant has the key",
			rec.Payload.Endpoint)
	}
	rec.Payload.Body = body
	rec.Payload.Header = withNewID(rec.Payload.Header, rec.Payload.KeyField, rec.Payload.VendorID, rec.Key.ID)
	file, err := replay.Export(rec)
	if err != nil {
		return inspect.Sent{}, err
	}
	public, err := url.Parse(g.Receiver.URL)
	if err != nil {
		return inspect.Sent{}, errors.New("url of the configuration is invalid")
	}
	header := replay.Original(file)
	header.Set(inspect.FieldEdited, "inspector")
	r, err := replay.Send(ctx, file, replay.Options{
		URL: public.Scheme + "://" + public.Host, SignedURL: g.Receiver.URL, Sign: signer, Header: header,
		Client: &http.Client{Transport: inProcess{Handler(g.rx)}},
	})
	return inspect.Sent{Status: r.Status, Code: r.Code}, err
}

// withNewID returns the fields with a new UUID where they have one of these identifiers.
func withNewID(h http.Header, ids ...string) http.Header {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	id := fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
	h = h.Clone()
	for _, values := range h {
		for i, value := range values {
			if value == "" || !slices.Contains(ids, value) {
				continue
			}
			if values[i] = id; strings.HasPrefix(value, `"`) {
				values[i] = strconv.Quote(id)
			}
		}
	}
	return h
}
