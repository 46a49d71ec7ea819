package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/atomicfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/producer/preset"
)

type initCmd struct {
	*program
	file, url, listen, store string
	operations, output       string
	forward, command         string
	presets                  string
	force                    bool
}

func initCommand(p *program) *cobra.Command {
	f := &initCmd{program: p}
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
	flags.StringVar(&f.presets, "presets", "", "file of your own presets, as the configuration will name it")
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
	own, err := readPresets(f.presets)
	if err != nil {
		return err
	}
	vendors, err := findPresets(names, own...)
	if err != nil {
		return err
	}
	draft, err := f.scaffold("", vendors)
	if err != nil {
		return err
	}
	if err := f.check(ctx, draft); err != nil { // before anything is written
		return err
	}
	dir := filepath.Dir(f.file)
	made, err := f.scaffold(dir, vendors)
	if err != nil {
		return err
	}
	secrets, said := map[string]string{}, ""
	about := "# Checked by `eyelet config check`; docs/config.md has every setting. url is the public base, as\n" +
		"# senders call it. Handlers get all events; type: push, say, selects some: `eyelet producers PRESET`.\n"
	for _, name := range slices.Sorted(maps.Keys(made.Producers)) {
		about += fmt.Sprintf("# POST %s/webhooks/%s\n", strings.TrimSuffix(made.URL, "/"), name)
		if file := filepath.Join(dir, name+".secret"); exists(file) {
			secrets[name] = file
			said += fmt.Sprintf("%s has the secret for %s\n", file, name)
		}
	}
	if err := atomicfile.WriteText(f.file, made.yaml(about)); err != nil {
		return usage.Errorf("", "%s: %s", f.file, usage.Cause(err))
	}
	said += fmt.Sprintf("wrote %s\nnext: %s serve --config %s\nand from another terminal: %s send %s --config %s "+
		"--producer %s\n", f.file, goRun(), f.file, goRun(), vendors[0].Name, f.file, vendors[0].Name)
	return f.result(f.output, map[string]any{"config": f.file, "secrets": secrets}, "%s", said)
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

// scaffold returns the configuration, with the secrets in files of a folder, if there is one.
func (f *initCmd) scaffold(folder string, vendors []preset.Preset) (*scaffold, error) {
	made := &scaffold{Listen: f.listen, URL: cmp.Or(f.url, "http://"+f.listen), Operations: f.operations,
		Store: f.store, Presets: f.presets, folder: folder}
	action := mapping{"stdout": true}
	switch {
	case f.forward != "":
		action = mapping{"forward": f.forward}
	case f.command != "":
		action = mapping{"exec": strings.Fields(f.command)}
	}
	for _, vendor := range vendors {
		if err := made.addPreset(vendor, action); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// check checks the configuration as serve does.
func (f *initCmd) check(ctx context.Context, draft *scaffold) error {
	s, err := draft.parse(config.Source{Environ: f.Environ}, f.file)
	if err != nil {
		return err
	}
	plan, _, err := f.serverOptions(ctx, s)
	if err != nil {
		return err
	}
	return plan.Close()
}
