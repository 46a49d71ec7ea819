package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

type initCmd struct {
	*program
	file, url, listen, store string
	operations, output       string
	forward, command         string
	secrets                  map[string]string // the files by preset
	force                    bool
}

func initCommand(p *program) *cobra.Command {
	f := &initCmd{program: p, secrets: map[string]string{}}
	c := &cobra.Command{
		Use: "init [PRESET...]", Short: "Write a configuration file",
		Long: "Writes eyelet.yaml for the given senders, and a file with a new secret for each, which only its\n" +
			"owner can read: enter the secret at the sender, or put the sender's there. Without a PRESET it asks.\n" +
			"An existing eyelet.yaml is not overwritten without --force, and a secret never is.",
		Example: "  eyelet init github stripe --forward http://127.0.0.1:9000/events\n" +
			"  eyelet init shopify --url https://hooks.example --exec ./record.sh",
		ValidArgsFunction: completePresets,
	}
	flags := c.Flags()
	flags.StringVar(&f.file, "config", config.DefaultFile, "file to write")
	flags.StringVar(&f.url, "url", "", "public base, as senders call it (default: http:// and the address)")
	flags.StringVar(&f.listen, "listen", config.DefaultListen, "address for deliveries")
	flags.StringVar(&f.store, "store", "badger:./data", "badger:DIR or memory:")
	flags.StringVar(&f.operations, "operations", "", "address for probes, metrics and events, or off")
	flags.StringVarP(&f.output, "output", "o", "text", "text or json")
	flags.StringVar(&f.forward, "forward", "", "URL to forward events to")
	flags.StringVar(&f.command, "exec", "", "program to run for each event, with arguments after spaces")
	flags.BoolVar(&f.force, "force", false, "overwrite the file")
	c.RunE = func(c *cobra.Command, args []string) error { return f.run(c.Context(), args) }
	return c
}

func (f *initCmd) run(ctx context.Context, names []string) error {
	if f.forward != "" && f.command != "" {
		return usage.Errorf("write another handler into the file", "--forward and --exec are both given")
	}
	if exists(f.file) && !f.force {
		return usage.Errorf("--force overwrites it, --config names another", "%s is there already", f.file)
	}
	if len(names) == 0 {
		names = f.ask()
	}
	vendors, err := f.vendors(names)
	if err != nil {
		return err
	}
	settings := map[string]settingList{}
	for _, vendor := range vendors {
		if settings[vendor.Name], err = freshSettings(vendor); err != nil {
			return err
		}
	}
	if err := f.check(ctx, f.text(vendors, settings)); err != nil {
		return err
	}
	for _, vendor := range vendors {
		if settings[vendor.Name], err = f.secretsInFiles(vendor.Name, settings[vendor.Name]); err != nil {
			return err
		}
	}
	if f.force {
		if err := os.Remove(f.file); err != nil && !os.IsNotExist(err) {
			return usage.Errorf("", "%s: %s", f.file, usage.Cause(err))
		}
	}
	if err := writeNewFile(f.file, []byte(f.text(vendors, settings))); err != nil {
		return err
	}
	text := ""
	for _, vendor := range vendors {
		if secret := f.secrets[vendor.Name]; secret != "" {
			text += fmt.Sprintf("wrote %s, the secret for %s\n", secret, vendor.Name)
		}
	}
	text += fmt.Sprintf("wrote %s\nnext: %s serve --config %s\nand from another terminal: %s send %s --config %s "+
		"--producer %s\n", f.file, goRun(), f.file, goRun(), vendors[0].Name, f.file, vendors[0].Name)
	return f.result(f.output, map[string]any{"config": f.file, "secrets": f.secrets}, "%s", text)
}

// ask asks for the senders and what happens to events. The end of the input answers nothing.
func (f *initCmd) ask() []string {
	in := bufio.NewScanner(f.In)
	question := func(text string) string {
		f.eprintf("%s ", text)
		in.Scan() // false at the end, where the text is empty
		return strings.TrimSpace(in.Text())
	}
	names := strings.FieldsFunc(question("Who sends? Names of `eyelet producers`, with spaces between [github]:"),
		func(r rune) bool { return r == ' ' || r == ',' })
	if len(names) == 0 {
		names = []string{"github"}
	}
	if f.forward == "" && f.command == "" {
		to := question("Where do events go? A URL, a program, or nothing to print them:")
		if strings.HasPrefix(to, "http://") || strings.HasPrefix(to, "https://") {
			f.forward = to
		} else {
			f.command = to
		}
	}
	if f.url == "" {
		f.url = question("What is the public address? As https://hooks.example [http://" + f.listen + "]:")
	}
	return names
}

func (f *initCmd) vendors(names []string) ([]preset.Preset, error) {
	var vendors []preset.Preset
	for i, name := range names {
		vendor, ok := preset.Find(name)
		if !ok {
			return nil, usage.Errorf(usage.DidYouMean(name, presetNames()), "unknown preset %q", name)
		}
		if !slices.Contains(names[:i], name) {
			vendors = append(vendors, vendor)
		}
	}
	return vendors, nil
}

// text returns the content of the file.
func (f *initCmd) text(vendors []preset.Preset, settings map[string]settingList) string {
	public := f.url
	if public == "" {
		public = "http://" + f.listen
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Checked by `eyelet config check`; docs/config.md has every setting.\n")
	fmt.Fprintf(&b, "listen: %s\nurl: %s   # public base, as senders call it\nstore: %q\n",
		strconv.Quote(f.listen), strconv.Quote(public), f.store)
	if f.operations != "" {
		fmt.Fprintf(&b, "operations: %q\n", f.operations)
	}
	b.WriteString("\nproducers:\n")
	var names []string
	for _, vendor := range vendors {
		names = append(names, vendor.Name)
		fmt.Fprintf(&b, "  %s: {preset: %s, %s}   # POST %s/webhooks/%s\n", vendor.Name, vendor.Name,
			settings[vendor.Name].yaml(), strings.TrimSuffix(public, "/"), vendor.Name)
	}
	action := "stdout: true"
	switch {
	case f.forward != "":
		action = "forward: " + strconv.Quote(f.forward)
	case f.command != "":
		var words []string
		for _, word := range strings.Fields(f.command) {
			words = append(words, strconv.Quote(word))
		}
		action = "exec: [" + strings.Join(words, ", ") + "]"
	}
	b.WriteString("\nhandlers:   # of all events; type: push, say, selects some: `eyelet producers PRESET`\n")
	from := "producer: " + names[0]
	if len(names) > 1 {
		from = "producer: [" + strings.Join(names, ", ") + "]"
	}
	fmt.Fprintf(&b, "  - {%s, type: \"*\", %s}\n", from, action)
	return b.String()
}

// check checks the file before anything is written.
func (f *initCmd) check(ctx context.Context, text string) error {
	s, err := config.Source{Environ: f.Environ}.Parse(f.file, []byte(text))
	if err != nil {
		return err
	}
	plan, _, err := f.serverOptions(ctx, s)
	if err != nil {
		return err
	}
	return plan.Close()
}

// secretsInFiles moves the secrets of a preset into files beside the configuration. A file that
// exists keeps its secret.
func (f *initCmd) secretsInFiles(name string, settings settingList) (settingList, error) {
	var moved settingList
	for _, one := range settings {
		if !slices.Contains([]string{"secret", "value", "password", "bearer", "secret_key"}, one.name) {
			moved = append(moved, one)
			continue
		}
		file := name + ".secret"
		secret, err := strconv.Unquote(one.value)
		if err != nil {
			return nil, err
		}
		path := filepath.Join(filepath.Dir(f.file), file)
		if !exists(path) {
			if err := writeNewFile(path, []byte(secret+"\n")); err != nil {
				return nil, err
			}
			f.secrets[name] = path
		}
		moved = append(moved, presetSetting{one.name + "_file", strconv.Quote(file)})
	}
	return moved, nil
}
