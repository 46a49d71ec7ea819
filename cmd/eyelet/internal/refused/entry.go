package refused

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"net/http"
	"net/netip"
	"unsafe"

	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/internal/redact"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

const (
	wholeBody = 1 << 20  // the largest body that is kept whole, in bytes
	cutBody   = 64 << 10 // bytes that are kept of larger bodies, and of responses

	// The memory of an entry, and of a field or certificate, without texts.
	entryBytes = int64(unsafe.Sizeof(entry{}) + unsafe.Sizeof(http.Request{}))
	fieldBytes = 128
)

// group is what deliveries have in common that are alike.
type group struct {
	endpoint string
	code     verify.Code
	network  netip.Prefix // of the client: IPv4 /24, IPv6 /64; the zero value is unknown
}

func groupOf(f *receiver.Refused) group {
	return group{f.Endpoint, f.Code, prefix(f.Peer, 64)}
}

// entry is a refused delivery in the ring. It shares nothing with the connection that it came on,
// and is not changed.
type entry struct {
	receiver.Refused
	number uint64
	group  group
	why    string
	size   int64    // of the body as read, else as declared
	digest [32]byte // of the body as read, if less is kept
	charge int64    // bytes
	part   *part    // of the ring's space
}

// newEntry returns a delivery as it is kept. It does not need the ring's lock.
func newEntry(f receiver.Refused, g group) *entry {
	e := &entry{Refused: f, group: g, size: f.Declared}
	e.Request = detached(f.Request)
	if f.Err != nil {
		e.why, e.Err = f.Err.Error(), nil
	}
	if f.BodyRead != receiver.BodyUnread {
		e.size = int64(len(f.Body))
	}
	if len(f.Body) > wholeBody {
		e.digest = sha256.Sum256(f.Body)
		e.Body = bytes.Clone(f.Body[:cutBody])
	}
	if len(f.Response.Body) > cutBody {
		e.Response.Body = bytes.Clone(f.Response.Body[:cutBody])
	}
	e.charge = max(floor, e.memory())
	return e
}

// detached returns a request without its context, which refers to the connection.
func detached(r *http.Request) *http.Request {
	at := *r.URL
	kept := &http.Request{
		Method: r.Method, URL: &at, Proto: r.Proto, ProtoMajor: r.ProtoMajor, ProtoMinor: r.ProtoMinor,
		Header: r.Header, Host: r.Host, RequestURI: r.RequestURI, ContentLength: r.ContentLength,
		RemoteAddr: r.RemoteAddr, Body: http.NoBody,
	}
	if r.TLS != nil {
		kept.TLS = &tls.ConnectionState{
			PeerCertificates: r.TLS.PeerCertificates, VerifiedChains: r.TLS.VerifiedChains,
		}
	}
	return kept
}

// memory returns how many bytes the entry takes, about.
func (e *entry) memory() int64 {
	r := e.Request
	n := entryBytes + int64(cap(e.Body)+cap(e.Response.Body)+len(e.why)+3*len(r.RequestURI)+
		len(r.Host))
	for _, h := range []http.Header{r.Header, e.Response.Header} {
		for name, values := range h {
			for _, value := range values {
				n += fieldBytes + int64(len(name)+len(value))
			}
		}
	}
	if r.TLS != nil {
		for _, certificate := range r.TLS.PeerCertificates {
			n += fieldBytes + 4*int64(len(certificate.Raw)) // parsed, too
		}
	}
	return n
}

// target returns the request target as received. Requests that were made in process have none.
func (e *entry) target() string {
	if e.Request.RequestURI != "" {
		return e.Request.RequestURI
	}
	return e.Request.URL.RequestURI()
}

func (e *entry) mask(rules *redact.Rules) *redact.Mask {
	return rules.Mask(e.Request.Header, e.target(), e.Request.URL.String())
}

// line returns the delivery for a list, without its credentials.
func (e *entry) line(m *redact.Mask) inspect.Refused {
	d := inspect.Refused{
		Number: e.number, Time: e.Time.UTC(), Endpoint: e.Endpoint, Status: e.Response.Status, Code: string(e.Code),
		Why: m.Text(e.why), Method: e.Request.Method, Target: m.Target(e.target()), Size: e.size,
	}
	if e.Peer.IsValid() {
		d.Peer = e.Peer.String()
	}
	return d
}

// detail returns all of the delivery, without its credentials.
func (e *entry) detail(rules *redact.Rules) inspect.RefusedDetail {
	m := e.mask(rules)
	d := inspect.RefusedDetail{
		Refused: e.line(m), URL: m.Target(e.Request.URL.String()), Proto: e.Request.Proto, Host: m.Text(e.Request.Host),
		Header: m.Header(e.Request.Header), BodyRead: string(e.BodyRead), Declared: e.Declared,
	}
	if e.digest != [32]byte{} {
		d.SHA256 = hex.EncodeToString(e.digest[:])
	}
	body, ok := m.Body(e.Body)
	d.Text, d.Base64 = inspect.TextOrBytes(body)
	d.Kept, d.Hidden = len(body), !ok || !bytes.Equal(body, e.Body)
	response, _ := m.Body(e.Response.Body)
	d.Response = &inspect.Response{Status: e.Response.Status, Header: m.Header(e.Response.Header)}
	d.Response.Text, d.Response.Base64 = inspect.TextOrBytes(response)
	return d
}
