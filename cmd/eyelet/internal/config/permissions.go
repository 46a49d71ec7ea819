package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/eyelet-dev/eyelet/dedup/pgstore"
	"github.com/eyelet-dev/eyelet/internal/conf"
	"github.com/eyelet-dev/eyelet/internal/httpserver"
)

// othersRead are the mode bits with which the group and others can read a file.
const othersRead = 0o044

// Exposed returns a warning for each secret that others may read, in a file or on a network.
func Exposed(s *Settings) []string { return append(exposedFiles(s), exposedSockets(s)...) }

// exposedSockets returns a warning for each connection of this process that leaves the machine
// without verified TLS, and carries events or a secret. Ports that listen are refused instead.
func exposedSockets(s *Settings) (warnings []string) {
	if isPostgres(s.Store) {
		hosts, _ := pgstore.Unverified(s.Store) // a wrong store is an error of its own
		for _, host := range hosts {
			warnings = append(warnings, fmt.Sprintf("store: events may cross the network to %s without TLS, or to "+
				"an unverified server: add sslmode=verify-full (and sslrootcert=FILE) to the connection string", host))
		}
	}
	for i := range s.Handlers {
		h := &s.Handlers[i]
		u, err := url.Parse(h.Forward)
		if err == nil && u.Scheme == "http" && (h.Bearer != "" || u.User != nil) && !s.InsecureHTTP &&
			!httpserver.IsLoopback(net.JoinHostPort(u.Hostname(), "1")) {
			warnings = append(warnings, fmt.Sprintf("%s: a credential is sent to %s without TLS: write an https URL, "+
				"or insecure_http: true on a private network", h.Node.Place("forward"), u.Host))
		}
	}
	return warnings
}

// exposedFiles returns a warning for each file with a secret that its group or others can
// read: the files that settings name, and the configuration if it contains a secret. On
// Windows, where modes do not say who can read a file, there are no warnings.
func exposedFiles(s *Settings) []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	files := slices.Clone(s.confidential)
	for _, t := range []*TLS{s.TLS, s.OperationsTLS} {
		if t != nil {
			files = append(files, t.KeyFile)
		}
	}
	for i := range s.Handlers {
		if sign := s.Handlers[i].Sign; sign != nil {
			files = append(files, sign.PrivateKeyFile)
		}
	}
	for i := range files {
		files[i] = s.Path(files[i])
	}
	if containsSecret(s) {
		files = append(files, s.File)
	}
	slices.Sort(files)
	var warnings []string
	for _, file := range slices.Compact(files) {
		info, err := os.Stat(file)
		if file == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&othersRead == 0 {
			continue // a file that cannot be read is an error of its own
		}
		warnings = append(warnings, fmt.Sprintf("%[1]s holds a secret, and its mode %04[2]o "+
			"lets others than its owner read it: chmod 600 %[1]s", file, info.Mode().Perm()))
	}
	return warnings
}

// variableMark is the value of every variable when only literal text counts.
const variableMark = "\x00"

// containsSecret reports whether a secret is written in the file itself.
func containsSecret(s *Settings) bool {
	data, err := os.ReadFile(s.File)
	if err != nil {
		return false // it was readable a moment ago
	}
	tree, err := conf.ParseTree(s.File, data, func(string) (string, bool) { return variableMark, true })
	return err == nil && literalSecret(s.Node, tree)
}

// literalSecret reports whether a secret is written out, not as a variable or the name of a file.
// written is the same value with variables as variableMark.
func literalSecret(n, written *conf.Node) bool {
	switch {
	case written == nil:
		return false
	case n.Kind == conf.Scalar && n.Shown == conf.DSN:
		return passwordIn(written.Text)
	case n.Kind == conf.Scalar && n.Shown == conf.Target:
		u, err := url.Parse(strings.ReplaceAll(written.Text, variableMark, "v"))
		return err == nil && u.User != nil
	case n.Kind == conf.Scalar:
		return n.Shown == conf.Secret && written.Text != "" && !strings.Contains(written.Text, variableMark)
	}
	for i, item := range n.Items {
		if literalSecret(item, written.Item(i)) {
			return true
		}
	}
	return slices.ContainsFunc(n.Names, func(name string) bool {
		file := n.Shown == conf.Secret && strings.HasSuffix(name, "_file") // of a map of secrets
		return !file && literalSecret(n.Member(name), written.Member(name))
	})
}

// passwordIn reports whether a connection string with variables as variableMark has a password.
func passwordIn(text string) bool {
	const variable = "31415926535" // digits may be anywhere, also in the port
	u, err := url.Parse(strings.ReplaceAll(text, variableMark, variable))
	if err != nil {
		return false // it is refused
	}
	password, _ := u.User.Password()
	for _, secret := range []string{password, u.Query().Get("password"), u.Query().Get("sslpassword")} {
		if secret != "" && !strings.Contains(secret, variable) {
			return true
		}
	}
	return false
}
