//go:build unix

package descriptors

import "syscall"

// Limit returns how many file descriptors the process may have, at most [Unknown]. It is the
// soft limit RLIMIT_NOFILE, which Go raises to the hard one when a program starts.
func Limit() int {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		return Unknown
	}
	return int(min(uint64(l.Cur), Unknown)) //nolint:unconvert // signed on some systems
}
