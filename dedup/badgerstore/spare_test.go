package badgerstore

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/eyelet-dev/eyelet/dedup"
)

// starvedDirEnv is the directory of the store of a child that runs out of file descriptors.
const starvedDirEnv = "EYELET_STARVED_DIR"

// starvedMain runs the child if this process is one.
func starvedMain() bool {
	dir := os.Getenv(starvedDirEnv)
	if dir == "" {
		return false
	}
	if err := starved(dir); err != nil {
		fmt.Println("error", err)
	}
	return true
}

// starved opens a store with tiny files, uses up all descriptors, lets memory tables and value
// logs change until new events are refused, and closes the descriptors. It prints which events
// were accepted.
func starved(dir string) error {
	s, err := Open(dir, tiny())
	if err != nil {
		return err
	}
	next := 0
	claims := func(n int) (refused int, err error) {
		for range n {
			c := mediumClaim(next)
			next++
			_, err := s.Claim(context.Background(), c)
			var u *dedup.ErrUnavailable
			switch {
			case err == nil:
				fmt.Println("new", c.Key.ID)
			case errors.As(err, &u) && !errors.Is(err, dedup.ErrFailed):
				refused++
			default:
				return refused, err
			}
		}
		return refused, nil
	}
	if _, err := claims(100); err != nil {
		return err
	}
	if err := limitDescriptors(200); err != nil {
		return err
	}
	var eaten []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		eaten = append(eaten, f)
	}
	fmt.Println("eaten", len(eaten))
	refused := 0
	for refused < 20 {
		n, err := claims(20)
		if refused += n; err != nil {
			return fmt.Errorf("without descriptors: %w", err)
		}
	}
	if err := s.Health(context.Background()); err == nil {
		return errors.New("a store that refuses for want of descriptors is healthy")
	}
	fmt.Println("refused", refused)
	for _, f := range eaten {
		_ = f.Close()
	}
	for s.Health(context.Background()) != nil { // until Badger has written the rest
		time.Sleep(10 * time.Millisecond)
	}
	if n, err := claims(200); err != nil || n > 0 {
		return fmt.Errorf("with descriptors again: %d refused, %w", n, err)
	}
	return s.Close()
}

// tiny returns options with files so small that a few events fill them.
func tiny() Options {
	o := quiet()
	o.memTable, o.valueFile = 64<<10, 1<<20
	return o
}

// TestRunningOutOfFileDescriptorsIsNotFatal lets a child run out of descriptors while memory
// tables and value logs change.
func TestRunningOutOfFileDescriptorsIsNotFatal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starvedDirEnv+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out[max(0, len(out)-2000):])
	}
	var accepted []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		switch what, rest, _ := strings.Cut(lines.Text(), " "); what {
		case "new":
			accepted = append(accepted, rest)
		case "error":
			t.Error(rest)
		default:
			t.Log(lines.Text())
		}
	}
	if len(accepted) < 400 {
		t.Errorf("%d events were accepted", len(accepted))
	}
	s := open(t, dir, tiny())
	for _, id := range accepted {
		mustClaim(t, s, largeClaim(id, 2000), dedup.Known)
	}
}
