//go:build linux

package faultdisk

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
)

// guard runs a line of the shell with arguments when this process ends without calling dismiss,
// however it ends: a process of its own waits for that.
func guard(line string, args ...string) (dismiss func(), err error) {
	args = append([]string{"-c", "read -r _ || {\n" + line + "\n}", "sh"}, args...)
	process := exec.CommandContext(context.Background(), "sh", args...)
	process.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := process.StdinPipe()
	if err == nil {
		err = process.Start()
	}
	return func() {
		_, _ = in.Write([]byte("\n"))
		_ = in.Close()
		_ = process.Wait()
	}, err
}

// UnmountAtEnd unmounts directories at the end of the test, also if its process is killed, even
// while it mounts one.
func UnmountAtEnd(t testing.TB, dirs ...string) {
	t.Helper()
	dismiss, err := guard(`for wait in 2 3; do
		sleep $wait # a mount that has begun ends
		for dir; do
			losetup -nlO NAME,BACK-FILE | while read -r loop file; do
				case $file in "$dir"/*) losetup -d "$loop";; esac
			done
		done
		for dir; do umount -l "$dir"; done
	done 2>/dev/null`, dirs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, dir := range dirs {
			_, _ = run("umount", "-l", dir)
		}
		dismiss()
	})
}
