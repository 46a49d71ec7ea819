package sink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"
)

const maxShebang = 256 // bytes of the first line of a script

// CheckScript returns why the system cannot run a script, which its own error does not name; nil
// for a good script and for a program that is not one.
func CheckScript(name string) error {
	f, err := os.Open(name) //nolint:gosec // the program of the configuration
	if err != nil || runtime.GOOS == "windows" {
		return nil
	}
	defer f.Close() //nolint:errcheck // it is only read
	line, err := bufio.NewReader(io.LimitReader(f, maxShebang)).ReadString('\n')
	line = strings.TrimSuffix(line, "\n")
	rest, script := strings.CutPrefix(line, "#!")
	switch {
	case !script && err == nil && isText(line):
		return errors.New("its first line does not begin with #! and an interpreter")
	case !script:
		return nil
	case strings.HasSuffix(line, "\r"):
		return fmt.Errorf("its first line ends with CRLF, so the interpreter is %q: save it with LF", rest)
	}
	words := strings.Fields(rest)
	if len(words) == 0 {
		return errors.New("its first line has #! and no interpreter")
	}
	if _, err := os.Stat(words[0]); err != nil {
		return fmt.Errorf("its interpreter %s is not there", words[0])
	}
	if filepath.Base(words[0]) == "env" && len(words) == 2 {
		if _, err := exec.LookPath(words[1]); err != nil {
			return fmt.Errorf("its interpreter %s is not in PATH", words[1])
		}
	}
	return nil
}

func isText(line string) bool {
	return utf8.ValidString(line) && !strings.ContainsFunc(line, func(r rune) bool {
		return !unicode.IsPrint(r) && r != '\t' && r != '\r'
	})
}
