//go:build !linux

package pgserver

import "errors"

// Suspend stops processes until [Resume]. It works on Linux only.
func Suspend(...int) error { return errors.ErrUnsupported }

// Resume continues suspended processes. It works on Linux only.
func Resume(...int) error { return errors.ErrUnsupported }

// PIDs returns the process id of the server.
func (s *Server) PIDs() []int { return []int{s.PID()} }

// removeMemory works on Linux only.
func (s *Server) removeMemory() {}
