package refused

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
	"github.com/eyelet-dev/eyelet/inspect"
	"github.com/eyelet-dev/eyelet/receiver"
	"github.com/eyelet-dev/eyelet/verify"
)

// feed adds deliveries to a ring, a second apart so that the rate admits them.
type feed struct {
	*Ring
	now time.Time
}

func newFeed() *feed {
	return newFeedOf(Options{For: 24 * time.Hour})
}

func newFeedOf(o Options) *feed {
	r, err := New(o)
	if err != nil {
		panic(err)
	}
	return &feed{r, r.started}
}

// delivery returns a refused delivery of a client to an endpoint.
func (f *feed) delivery(endpoint, peer, body string) receiver.Refused {
	r := httptest.NewRequest(http.MethodPost, "/webhooks/"+endpoint, http.NoBody)
	return receiver.Refused{
		Time: f.now, Endpoint: endpoint, Request: r, Body: []byte(body), BodyRead: receiver.BodyWhole,
		Declared: int64(len(body)), Peer: netip.MustParseAddr(peer), Code: verify.SignatureMismatch,
		Err: errors.New("mismatch"), Response: dedup.Response{Status: 401, Body: []byte("{}")},
	}
}

func (f *feed) add(d receiver.Refused) {
	f.now = f.now.Add(time.Second)
	d.Time = f.now
	f.Add(context.Background(), d)
}

// byPeer counts the deliveries that are kept of each client.
func (f *feed) byPeer() map[string]int {
	n := map[string]int{}
	for _, d := range f.Refused() {
		n[d.Peer]++
	}
	return n
}

func TestAFloodDisplacesOnlyItself(t *testing.T) {
	t.Parallel()
	f := newFeed()
	for i := range 40 {
		f.add(f.delivery("shop", "192.0.2.7", fmt.Sprint(i)))
	}
	if n := f.byPeer()["192.0.2.7"]; n != alike {
		t.Fatalf("%d of one kind are kept, want %d", n, alike)
	}
	// One /24 with every code there may be, to every endpoint, with large bodies.
	large := strings.Repeat("x", wholeBody)
	for i := range 2000 {
		d := f.delivery(fmt.Sprint("endpoint", i%50), fmt.Sprintf("198.51.100.%d", i%250), "x")
		d.Code = verify.Code(fmt.Sprint("code", i%7))
		if i%100 == 0 {
			d.Body = []byte(large)
		}
		f.add(d)
	}
	if n := f.byPeer()["192.0.2.7"]; n != alike {
		t.Errorf("%d of %d deliveries of the other network are left", n, alike)
	}
	// The newest delivery of a quiet network is kept, however full the ring is.
	f.add(f.delivery("shop", "203.0.113.1", "newest"))
	if first := f.Refused()[0]; first.Peer != "203.0.113.1" {
		t.Errorf("the newest is %+v", first)
	}
	if f.space.bytes > memory || len(f.entries) > memory/floor {
		t.Errorf("%d entries with %d bytes", len(f.entries), f.space.bytes)
	}
	if f.Refused()[1].More == 0 {
		t.Error("the flood has no number of those that are not kept")
	}
}

func TestNetworksAre24And64Bits(t *testing.T) {
	t.Parallel()
	f := newFeed()
	for i := range 2 * alike {
		f.add(f.delivery("shop", fmt.Sprintf("192.0.2.%d", i), ""))
		f.add(f.delivery("shop", fmt.Sprintf("2001:db8::%x", i), ""))
		f.add(f.delivery("shop", fmt.Sprintf("2001:db8:0:1::%x", i), ""))
	}
	d := f.delivery("shop", "192.0.2.1", "")
	d.Peer = netip.Addr{}
	f.add(d)
	if n := len(f.Refused()); n != 3*alike+1 {
		t.Errorf("%d are kept, want %d of each of three networks and one more", n, alike)
	}
	if f.Refused()[0].Peer != "" {
		t.Error("an unknown client has an address")
	}
}

// TestTheRateIsBounded adds deliveries of one second. A network gets as much as it leaves.
func TestTheRateIsBounded(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		networks int
		known    bool
		endpoint string
		want     int
	}{
		"paths":                       {1000, false, "", perSecond / 4},
		"endpoints":                   {1000, false, "shop", perSecond * 3 / 4},
		"known peers":                 {1000, true, "shop", perSecond},
		"one network":                 {1, false, "shop", 19}, // of 37
		"one network of a known peer": {1, true, "shop", perSecond / 2},
		"four networks":               {4, true, "shop", 40},
	} {
		f := newFeed()
		add := func(i int) {
			d := f.delivery(tc.endpoint, fmt.Sprintf("198.%d.%d.1", i%tc.networks>>8, i%tc.networks&255), "")
			d.Known = tc.known
			f.Add(t.Context(), d)
		}
		for i := range 1000 {
			add(i)
		}
		kept, dropped := f.Counts()
		if kept != min(tc.want, alike*tc.networks) || dropped[DroppedRate] != uint64(1000-tc.want) {
			t.Errorf("%s: %d kept, want %d; dropped %v", name, kept, tc.want, dropped)
		}
		f.now = f.now.Add(time.Second)
		add(0)
		if more, _ := f.Counts(); more != kept+1 {
			t.Errorf("%s: the next second admits none", name)
		}
	}
}

// TestEvidenceSurvivesFloods refuses a sender 40 times in 14 s, beside a flood.
func TestEvidenceSurvivesFloods(t *testing.T) {
	t.Parallel()
	ipv4 := func(networks int) func(int) string {
		return func(i int) string { return fmt.Sprintf("198.%d.%d.%d", i%networks>>8, i%networks&255, i%250) }
	}
	ipv6 := func(i int) string { return fmt.Sprintf("2001:db8:1:%x::1", i&0xffff) }
	for name, tc := range map[string]struct {
		endpoint string
		peer     func(int) string
		rate     int // of the flood in a second
		known    bool
		want     int // of the deliveries that one group may have
	}{
		"two networks, paths":            {"", ipv4(2), 300, false, alike},
		"two networks":                   {"shop", ipv4(2), 300, false, alike},
		"four networks, paths":           {"", ipv4(4), 400, false, alike},
		"four networks":                  {"shop", ipv4(4), 400, false, alike},
		"ten networks":                   {"shop", ipv4(10), 400, false, alike * 3 / 4},
		"IPv6, paths":                    {"", ipv6, 50, false, alike},
		"IPv6":                           {"shop", ipv6, 50, false, alike},
		"IPv6, fast":                     {"shop", ipv6, 400, false, alike},
		"many networks, paths":           {"", ipv4(1 << 15), 50, false, alike},
		"many networks, paths, fast":     {"", ipv4(1 << 15), 400, false, alike},
		"many networks, other endpoint":  {"mail", ipv4(1 << 15), 50, false, alike / 2},
		"many networks":                  {"shop", ipv4(1 << 15), 50, false, 1},
		"many networks, a known peer":    {"shop", ipv4(1 << 15), 400, true, alike},
		"many networks of known peers":   {"", ipv4(1 << 15), 400, true, alike},
		"two networks, several in a row": {"mail", func(i int) string { return ipv4(2)(i / 1000) }, 300, false, alike},
	} {
		f, n := newFeed(), 0
		flood := func(d time.Duration) {
			d /= time.Duration(tc.rate)
			for range tc.rate * 14 / 40 {
				f.now = f.now.Add(d)
				f.Add(t.Context(), f.delivery(tc.endpoint, tc.peer(n), ""))
				n++
			}
		}
		const honest = "203.0.113.9"
		for i := range 40 {
			flood(time.Second)
			d := f.delivery("shop", honest, "")
			d.Known = tc.known && i < alike/2 // too many refusals make it unknown
			f.Add(t.Context(), d)
		}
		for range 40 {
			flood(time.Second)
		}
		if got := f.byPeer()[honest]; got < tc.want {
			t.Errorf("%s: %d are kept, want %d", name, got, tc.want)
		}
	}
}

func TestNumbersAreNeverReused(t *testing.T) {
	t.Parallel()
	f := newFeed()
	last := uint64(0)
	for range 3 * alike {
		f.add(f.delivery("shop", "192.0.2.7", ""))
		if newest := f.Refused()[0].Number; newest != last+1 {
			t.Fatal(newest, "follows", last)
		}
		last++
	}
	if _, ok := f.RefusedDetail(1); ok {
		t.Error("the first is still there")
	}
	if d, ok := f.RefusedDetail(last); !ok || d.Number != last {
		t.Errorf("%+v, %t", d, ok)
	}
}

func TestOldDeliveriesGo(t *testing.T) {
	t.Parallel()
	f := newFeedOf(Options{For: time.Hour})
	f.now = time.Now().Add(-2 * time.Hour)
	f.add(f.delivery("shop", "192.0.2.7", ""))
	if list := f.Refused(); len(list) != 0 || f.space.bytes != 0 || len(f.space.uses)+len(f.groups) != 0 {
		t.Errorf("%d deliveries, %d bytes", len(list), f.space.bytes)
	}
}

func TestRequestsToUnknownPathsAreKept(t *testing.T) {
	t.Parallel()
	f := newFeed()
	f.add(f.delivery("shop", "192.0.2.1", ""))
	for i := range 100 { // a scan displaces only itself
		d := f.delivery("", "198.51.100.7", "")
		d.Code, d.Request = "not_found", httptest.NewRequest("GET", fmt.Sprintf("/%d.php", i), http.NoBody)
		f.add(d)
	}
	if n := f.byPeer(); n["192.0.2.1"] != 1 || n["198.51.100.7"] != alike {
		t.Errorf("%v are kept, want 1 and %d", n, alike)
	}
}

func TestLargeBodiesAreCutWithTheirDigest(t *testing.T) {
	t.Parallel()
	f := newFeed()
	text := strings.Repeat("0123456789abcdef", (wholeBody+16)/16)
	f.add(f.delivery("shop", "192.0.2.7", text))
	f.add(f.delivery("shop", "192.0.2.7", text[:wholeBody]))
	d, _ := f.RefusedDetail(1)
	digest := sha256.Sum256([]byte(text))
	if d.Kept != cutBody || d.Text != text[:cutBody] || d.SHA256 != hex.EncodeToString(digest[:]) ||
		d.Size != wholeBody+16 {
		t.Errorf("kept %d of %d, digest %s", d.Kept, d.Size, d.SHA256)
	}
	if whole, _ := f.RefusedDetail(2); whole.Kept != wholeBody || whole.SHA256 != "" {
		t.Errorf("kept %d of %d", whole.Kept, whole.Size)
	}
	if kept := cap(f.entries[0].Body); kept > 2*cutBody {
		t.Error("the whole body is held:", kept)
	}
}

// TestNothingOfTheConnectionIsKept: an entry would keep its buffers in memory.
func TestNothingOfTheConnectionIsKept(t *testing.T) {
	t.Parallel()
	f := newFeed()
	defer runtime.KeepAlive(f)
	gone := make(chan struct{})
	func() {
		connection := &[1 << 16]byte{}
		runtime.AddCleanup(connection, func(c chan struct{}) { close(c) }, gone)
		d := f.delivery("shop", "192.0.2.7", "")
		d.Request = d.Request.WithContext(context.WithValue(t.Context(), f, connection))
		f.add(d)
	}()
	for range 1000 {
		runtime.GC()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("the context of the request is still in memory")
}

// TestMemoryIsBounded fills rings with what takes most memory for its size.
func TestMemoryIsBounded(t *testing.T) {
	for name, deliveryOf := range map[string]func(f *feed, i int) receiver.Refused{
		"bodies": func(f *feed, i int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			d.Body = bytes.Repeat([]byte{'x'}, 1<<(i%21))
			return d
		},
		"large bodies": func(f *feed, _ int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			d.Body = make([]byte, wholeBody)
			return d
		},
		"buffers that are larger than their bodies": func(f *feed, _ int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			d.Body = append(make([]byte, 0, 1<<20), 'x')
			return d
		},
		"fields": func(f *feed, i int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			for n := range 3000 {
				d.Request.Header[fmt.Sprint(i, "-", n)] = []string{fmt.Sprint(n)}
			}
			return d
		},
		"values": func(f *feed, i int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			for n := range 3000 {
				d.Request.Header["A"] = append(d.Request.Header["A"], fmt.Sprint(i, n))
			}
			return d
		},
		"paths": func(f *feed, i int) receiver.Refused {
			d := f.delivery("shop", "192.0.2.1", "")
			d.Request = httptest.NewRequest("POST", fmt.Sprint("/", i, strings.Repeat("%41", 5000)), http.NoBody)
			return d
		},
	} {
		before := heap()
		f := newFeed()
		for i := range 700 {
			d := deliveryOf(f, i)
			d.Peer = netip.AddrFrom4([4]byte{198, byte(i >> 8), byte(i), 1}) // each a network of its own
			f.add(d)
		}
		took := heap() - before
		t.Logf("%s: %d entries, charged %d KiB, in memory %d KiB", name, len(f.entries), f.space.bytes>>10, took>>10)
		if took > memory+memory/4 {
			t.Errorf("%s: %d KiB of memory", name, took>>10)
		}
		runtime.KeepAlive(f)
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAHugeHeadIsNotKept(t *testing.T) {
	t.Parallel()
	f := newFeed()
	d := f.delivery("shop", "192.0.2.1", "")
	for n := range 40_000 {
		d.Request.Header[fmt.Sprint(n)] = []string{""}
	}
	f.add(d)
	if kept, dropped := f.Counts(); kept != 0 || dropped[DroppedFull] != 1 {
		t.Errorf("%d kept, dropped %v", kept, dropped)
	}
}

// TestManyAtOnce is for the race detector.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	f := newFeed()
	var wg sync.WaitGroup
	for i := range 8 {
		d := f.delivery(fmt.Sprint(i), fmt.Sprintf("192.0.%d.1", i), strings.Repeat("x", 1000))
		wg.Go(func() {
			for n := range 200 {
				d.Time = f.started.Add(time.Duration(n) * 500 * time.Millisecond)
				f.Add(context.Background(), d)
				if n%20 == 0 {
					list := f.Refused()
					f.RefusedDetail(list[len(list)-1].Number)
				}
			}
		})
	}
	wg.Wait()
	total := int64(0)
	for _, e := range f.entries {
		total += e.charge
	}
	if total != f.space.bytes || len(f.entries) == 0 {
		t.Errorf("%d entries with %d bytes, counted %d", len(f.entries), total, f.space.bytes)
	}
}

// TestCredentialsAreInNoOutput plants credentials in every place.
func TestCredentialsAreInNoOutput(t *testing.T) {
	t.Parallel()
	o := Options{For: time.Hour}
	o.Rules.Fields, o.Rules.Params = []string{"X-Gitlab-Token"}, []string{"hub.verify_token"}
	for _, rule := range []string{"header:X-Mine", "query:k", "json:user.password"} {
		check(t, o.Rules.Add(rule))
	}
	const secret = "s3cr3t-credential"
	for name, change := range map[string]func(*receiver.Refused){
		"Authorization":       func(f *receiver.Refused) { f.Request.Header.Set("Authorization", "Bearer "+secret) },
		"a field twice":       func(f *receiver.Refused) { f.Request.Header["Cookie"] = []string{"a=b", secret} },
		"Proxy-Authorization": func(f *receiver.Refused) { f.Request.Header.Set("Proxy-Authorization", secret) },
		"a producer's field":  func(f *receiver.Refused) { f.Request.Header.Set("X-Gitlab-Token", secret) },
		"a field of redact":   func(f *receiver.Refused) { f.Request.Header.Set("X-Mine", secret) },
		"another letter case": func(f *receiver.Refused) { f.Request.Header["x-MINE"] = []string{secret} },
		"a parameter": func(f *receiver.Refused) {
			f.Request = httptest.NewRequest("POST", "/a?x=1&hub.verify_token="+secret+"&k=", http.NoBody)
		},
		"a parameter of redact": func(f *receiver.Refused) {
			f.Request = httptest.NewRequest("POST", "https://h/a?%6B="+secret, http.NoBody)
			f.Request.URL.Host = "hooks.example"
		},
		"a field that a proxy made of the target": func(f *receiver.Refused) {
			f.Request = httptest.NewRequest("POST", "/a?k="+secret, http.NoBody)
			f.Request.Header.Set("X-Original-Url", "/a?k="+secret)
		},
		"a user":             func(f *receiver.Refused) { f.Request.RequestURI = "http://u:" + secret + "@h/a" },
		"a member":           func(f *receiver.Refused) { f.Body = []byte(`{"user":{"password":"` + secret + `"}}`) },
		"a body that is cut": func(f *receiver.Refused) { f.Body = []byte(`{"user":{"password":"` + secret) },
		"a form":             func(f *receiver.Refused) { f.Body = []byte(`user.password=` + secret) },
		"a response":         func(f *receiver.Refused) { f.Response.Header = http.Header{"Set-Cookie": {secret}} },
		"a copy in the body": func(f *receiver.Refused) {
			f.Request.Header.Set("X-Mine", secret)
			f.Body = []byte(`{"token":"` + secret + `"}`)
		},
	} {
		o.Dir, o.Max, o.Log = t.TempDir(), 1<<20, slog.New(slog.DiscardHandler)
		f := newFeedOf(o)
		d := f.delivery("shop", "192.0.2.1", `{"user":{}}`)
		change(&d)
		f.add(d)
		detail, ok := f.RefusedDetail(1)
		rec, err := detail.Recording()
		if err != nil || !ok {
			t.Errorf("%s: %v, %t", name, err, ok)
			continue
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		files := written(t, o.Dir)
		if len(files) != 1 || !bytes.Equal(files[0], rec.Bytes()) {
			t.Errorf("%s: the files are %s", name, files)
		}
		for _, output := range []any{f.Refused(), detail, string(rec.Bytes()), string(files[0])} {
			text, err := json.Marshal(output)
			if err != nil || bytes.Contains(text, []byte(secret)) || bytes.Contains(text, []byte("s3cr")) {
				t.Errorf("%s: %s", name, text)
			}
		}
		if !strings.Contains(string(rec.Bytes())+fmt.Sprint(detail.Response), "REDACTED(") && !detail.Hidden {
			t.Errorf("%s: nothing was redacted:\n%s", name, rec.Bytes())
		}
	}
}

var _ inspect.RefusedSource = (*Ring)(nil)

// check ends the test when there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
