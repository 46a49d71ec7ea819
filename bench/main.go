// Command bench measures the cost of accepting events durably and handling them, beside other
// receivers: a bare Echo handler, a receiver with Redis as it is written by hand, and
// adnanh/webhook.
//
// Each receiver is a separate process, so its CPU time does not include that of the clients. All
// receivers of a workload run in each round, one after the other, and ratios are those of one
// round: a single round on a shared machine means little. A round ends when every accepted event
// is handled, and the CPU time until then counts. On Linux and as root, the receivers use a file
// system of their own, so the flushes of its device are theirs. Relative paths are those of the
// shell.
//
//	go run -C bench .                                       # a quarter of an hour
//	go run -C bench . -only new-64 -rounds 3 -time 1s       # half a minute
//	go run -C bench . -only new-64,eyelet -against OTHER    # two binaries of Eyelet
//	go run -C bench . -refused  # the cost of keeping refused deliveries
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/eyelet-dev/eyelet/internal/workdir"
)

// settings are the flags.
type settings struct {
	rounds, body         int
	refused, shared      bool
	time, soak           time.Duration
	dir, output, only    string
	eyelet, against      string
	docs, from, profile  string
	child, listen, redis string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 7, "rounds; each measures every receiver, and medians count")
	flag.IntVar(&s.body, "body", 1024, "size of a payload in bytes")
	flag.DurationVar(&s.time, "time", 3*time.Second, "how long a receiver is loaded in a round")
	flag.StringVar(&s.only, "only", "", "workloads and receivers to measure, such as new-64,bare,eyelet (default: all)")
	flag.StringVar(&s.dir, "dir", "", "parent folder of the stores (default: the system's temporary folder)")
	flag.BoolVar(&s.shared, "shared", false, "use the file system of -dir, and mount none")
	flag.StringVar(&s.eyelet, "eyelet", "", "binary of Eyelet to measure (default: built in the repository)")
	flag.StringVar(&s.against, "against", "", "another binary of Eyelet, measured beside it as \"old\"")
	flag.StringVar(&s.output, "o", "text", "output: text or json")
	flag.StringVar(&s.docs, "docs", "", "folder to write performance.md, .svg and .json to")
	flag.StringVar(&s.from, "from", "", "print the results of this JSON file instead of measuring")
	flag.StringVar(&s.profile, "profile", "", "write a CPU profile of Eyelet's last load to this file")
	flag.DurationVar(&s.soak, "soak", 0, "load Eyelet constantly for this time, and report whether it grows")
	flag.BoolVar(&s.refused, "refused", false, "measure the cost of keeping refused deliveries, in ten pairs")
	flag.StringVar(&s.child, "child", "", "internal: serve a receiver")
	flag.StringVar(&s.listen, "listen", "", "internal: its address")
	flag.StringVar(&s.redis, "redis", "", "internal: the socket of its Redis")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (s settings) run(ctx context.Context, out, progress io.Writer) error {
	if s.child != "" {
		return child(ctx, s, out)
	}
	if err := workdir.AbsAll(&s.dir, &s.eyelet, &s.against, &s.docs, &s.from, &s.profile); err != nil {
		return err
	}
	if s.rounds < 1 || s.body < 128 || s.body > maxBody/2 || s.time <= 0 {
		return errors.New("-rounds must be at least 1, -body from 128 to 524288, and -time positive")
	}
	if s.profile != "" && s.eyelet != "" {
		return errors.New("-profile needs the binary that is built here, without -eyelet")
	}
	if _, _, err := s.selected(); err != nil {
		return err
	}
	if s.refused {
		return refusedDeliveries(ctx, s, out, progress)
	}
	if s.soak > 0 {
		return soak(ctx, s, out, progress)
	}
	var (
		r   *results
		err error
	)
	if s.from != "" {
		r, err = readResults(s.from)
	} else {
		r, err = measureAll(ctx, s, progress)
	}
	if err != nil {
		return err
	}
	if s.docs != "" {
		if err := writeDocs(s.docs, r); err != nil {
			return err
		}
	}
	if s.output == "json" {
		return json.NewEncoder(out).Encode(r)
	}
	return r.print(out)
}
