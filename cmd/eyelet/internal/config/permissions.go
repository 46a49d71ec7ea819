package config

import (
	"fmt"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strings"
)

// othersRead are the bits of a mode that let the group and others read a file.
const othersRead = 0o044

// exposed returns a warning for each file with a secret that others than its owner can read: those that settings name,
// and the configuration when a secret is written out in it. Public keys and certificates are none. On Windows
// modes say nothing about who can read, and there are no warnings.
func Exposed(c *Settings) []string {
	if runtime.GOOS == "windows" {
		return nil
	}
	files := slices.Clone(c.confidential)
	for _, t := range []*TLS{c.TLS, c.OperationsTLS} {
		if t != nil {
			files = append(files, t.KeyFile)
		}
	}
	for i := range c.Handlers {
		if sign := c.Handlers[i].Sign; sign != nil {
			files = append(files, sign.PrivateKeyFile)
		}
	}
	for i := range files {
		files[i] = c.Path(files[i])
	}
	if writesOutSecrets(c) {
		files = append(files, c.File)
	}
	slices.Sort(files)
	var warnings []string
	for _, file := range slices.Compact(files) {
		info, err := os.Stat(file)
		if file == "" || err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&othersRead == 0 {
			continue // what cannot be read is a mistake of its own
		}
		warnings = append(warnings, fmt.Sprintf("%s holds a secret, and its mode %04o lets others than its owner read it: chmod 600 %s",
			file, info.Mode().Perm(), file))
	}
	return warnings
}

// writesOutSecrets reports whether a secret is written out in the file of the settings.
func writesOutSecrets(c *Settings) bool {
	data, err := os.ReadFile(c.File)
	if err != nil {
		return false // it was read a moment ago; there is nothing to warn of
	}
	tree, err := parseTree(c.File, data, func(string) (string, bool) { return someVariable, true })
	return err == nil && tree != nil && tree.holdsSecret("")
}

// someVariable is the value of every variable where only what is written out counts.
const someVariable = "\x00"

// holdsSecret reports whether a secret is written out in the value of a setting, and not as a variable, alone or
// among other text, or as the name of a file. It is for values whose variables are someVariable.
func (n *node) holdsSecret(name string) bool {
	switch n.kind {
	case scalar:
		return n.isSecret(name) && n.text != "" && !strings.Contains(n.text, someVariable)
	case sequence:
		return slices.ContainsFunc(n.items, func(item *node) bool { return item.holdsSecret(item.nameIn(name)) })
	case mapping:
		return slices.ContainsFunc(n.names, func(member string) bool {
			inner, of := n.inner[member], member
			if !strings.HasSuffix(member, "_file") {
				of = inner.nameUnder(name, member)
			}
			return inner.holdsSecret(of)
		})
	}
	return false
}

// isSecret reports whether the setting is one of a secret, or the value an address with a password.
func (n *node) isSecret(name string) bool {
	if name == "forward" && n.kind == scalar {
		u, err := url.Parse(strings.ReplaceAll(n.text, someVariable, "v"))
		return err == nil && u.User != nil
	}
	return name != "roots" && slices.Contains(inFiles, name)
}
