package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/explain"
	"github.com/eyelet-dev/eyelet/internal/httpfile"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

func explainCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "explain FILE.http|NUMBER|-", Aliases: []string{"verify"}, Args: cobra.ExactArgs(1),
		Short: "Verify a delivery, and find out why it was refused",
		Long: "Verifies a delivery as the configured receiver would at the given time, without sending or storing\n" +
			"anything, and prints what it found out: the code, the key, what is covered, and the signed times\n" +
			"relative to the arrival. Of a signature that is not valid it prints what the request says, what should\n" +
			"be signed, and why it is not valid: it changes one thing of the configuration or of the delivery, or\n" +
			"two, and verifies it again. A cause is proved if the delivery verifies then.\n\n" +
			"The delivery is a recorded one, one that the running server refused (by its number in eyelet events\n" +
			"refused), or read from standard input. The server knows the credentials of the deliveries that it\n" +
			"refused; recordings hide them.\n\n" +
			"Exits 0 when the delivery is valid or a cause was found, else 1; as `eyelet verify` 1 also with a cause.",
		Example: "  eyelet explain refused.http\n" +
			"  eyelet explain 17\n" +
			"  eyelet explain --try-secret-file new.txt refused.http",
	}
	file, format := configFlag(c), outputFlag(c)
	name := c.Flags().String("producer", "", "producer (default: the note of the delivery)")
	now := c.Flags().String("now", "", "unix time of arrival (default: the note of the delivery, else the present)")
	c.Flags().Bool("explain", true, "verify --explain, which verify does now")
	_ = c.Flags().MarkHidden("explain")
	try := c.Flags().StringArray("try-secret-file", nil, "file with a secret that the sender may have; repeatable")
	c.RunE = func(c *cobra.Command, args []string) error {
		number, bad := strconv.ParseUint(args[0], 10, 64)
		if bad == nil && len(*try) == 0 && *name == "" && *now == "" {
			client, _, err := p.running(c, *file)
			if err != nil {
				return err
			}
			report, err := client.ExplainRefused(c.Context(), number)
			if err != nil {
				return refusedError(err)
			}
			return printServerReport(p, report, *format)
		}
		return explainArgument(c, p, *file, args[0], *format, asked{*name, *now, *try})
	}
	return c
}

// asked is what the flags of explain say about a delivery.
type asked struct {
	producer, now string
	secretFiles   []string
}

// explainArgument prints what the configuration makes of a delivery, and why.
func explainArgument(c *cobra.Command, p *program, file, arg, format string, flags asked) error {
	rec, err := refusedRecording(p, c, file, arg)
	if err != nil {
		return err
	}
	at, err := arrival(rec, flags.now)
	if err != nil {
		return err
	}
	secrets, err := readSecrets(flags.secretFiles)
	if err != nil {
		return err
	}
	src := p.source(c, file)
	src.Flags = nil // none of them is a setting
	_, plan, err := buildPlan(c.Context(), src, true)
	if err != nil {
		return err
	}
	defer plan.Close() //nolint:errcheck // only key sets that fetch are closed
	v, err := explainRecording(c.Context(), plan, rec, cmp.Or(flags.producer, rec.Note("producer")), at, secrets)
	if err != nil {
		return err
	}
	if format == "json" {
		err = p.encode(v)
	} else {
		v.text(p)
		printExplanation(p, v.Report, hidden(rec))
	}
	if known := c.CalledAs() != "verify" && len(v.Findings) > 0; err == nil && !v.Valid && !known {
		return &failure{}
	}
	return err
}

// printServerReport prints what the server found out about a delivery that it refused. If there is
// no cause, it returns an error without a message.
func printServerReport(p *program, report explain.Report, format string) error {
	if format == "json" {
		if err := p.encode(report); err != nil {
			return err
		}
	} else if report.Code == "" && len(report.Findings) == 0 {
		p.printf("nothing is wrong with the signature and its time\n")
	} else {
		p.printf("refused: %s\n", report.Code)
		printExplanation(p, report, false)
	}
	if report.Code != "" && len(report.Findings) == 0 {
		return &failure{}
	}
	return nil
}

// refusedRecording reads the delivery of the argument: a file, a number, or standard input.
func refusedRecording(p *program, c *cobra.Command, file, arg string) (*httpfile.File, error) {
	if arg == "-" {
		data, err := readStdin(p.In)
		if err != nil {
			return nil, err
		}
		return parseRecording("standard input", data)
	}
	number, err := strconv.ParseUint(arg, 10, 64)
	if err != nil {
		return readRecording(arg)
	}
	client, _, err := p.running(c, file)
	if err != nil {
		return nil, err
	}
	data, err := client.RawRefused(c.Context(), number)
	if err != nil {
		return nil, refusedError(err)
	}
	return parseRecording(arg, data)
}

const (
	codeNotFound  = "not_found" // of a delivery to an unknown path
	maxSecretFile = 64 << 10    // bytes of a file with a secret
)

// readSecrets reads the secrets that are tried. A finding names them by their file.
func readSecrets(files []string) (offers []verify.Offer, err error) {
	for _, name := range files {
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, usage.Errorf("", "%s: %s", name, usage.Cause(err))
		case !info.Mode().IsRegular():
			return nil, usage.Errorf("name a file with one secret in it", "%s is not a file", name)
		case info.Size() > maxSecretFile:
			return nil, usage.Errorf("name a file with one secret in it", "%s is larger than %d KiB", name,
				maxSecretFile>>10)
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, usage.Errorf("", "%s: %s", name, usage.Cause(err))
		}
		secret := strings.TrimRight(string(text), "\r\n")
		if strings.TrimSpace(secret) == "" {
			return nil, usage.Errorf("name a file with one secret in it", "%s is empty", name)
		}
		offers = append(offers, verify.Offer{Name: "the secret of " + filepath.Base(name),
			Secret: verify.Secret(secret)})
	}
	return offers, nil
}

// explainRecording verifies and explains a recorded delivery.
func explainRecording(
	ctx context.Context, p *config.Plan, rec *httpfile.File, name string, now time.Time, secrets []verify.Offer,
) (verdict, error) {
	from, err := producerOf(ctx, p, rec, name)
	if err != nil {
		return verdict{}, err
	}
	d, err := deliveryOf(p, rec, from)
	if err != nil {
		return verdict{}, err
	}
	v := verdictOn(from, d, now)
	declared := int64(-1)
	if text := rec.Header().Get("Content-Length"); text != "" {
		if declared, err = strconv.ParseInt(text, 10, 64); err != nil {
			declared = -1
		}
	}
	state, _, _ := strings.Cut(rec.Note("body"), ",")
	explainer := explain.New(p.Producers)
	explainer.Within = time.Minute
	v.Report = explainer.Explain(ctx, explain.Delivery{
		Endpoint: name, Request: d.Request, Body: d.Body, Unread: state == "unread", Declared: declared,
		Code: verify.Code(rec.Note("code")), Now: now, Secrets: secrets,
	})
	return v, nil
}

// printExplanation prints the causes, if there is anything to explain.
func printExplanation(p *program, report explain.Report, hidden bool) {
	if report.Code == "" && len(report.Findings) == 0 {
		return
	}
	printFindings(p, report.Findings)
	printBases(p, report.Bases)
	switch {
	case report.Code == codeNotFound:
		p.printf("no endpoint has this path: compare it with the names of the producers, and with url;\n" +
			"the log names the nearest one\n")
	case len(report.Findings) == 0:
		p.printf("no cause was found: offer other secrets with --try-secret-file, and compare the URL and the\n" +
			"body with those of the sender\n")
	}
	if hidden {
		p.printf("credentials of this recording are hidden, so they could not be compared\n")
	}
	end := ""
	if !report.Complete {
		end = "; a limit ended the search"
	}
	p.printf("%s%s\n", count(report.Trials, "trial"), end)
}

// hidden reports whether the recording lacks credentials or parts of its body.
func hidden(rec *httpfile.File) bool {
	if strings.Contains(rec.Note("body"), "redacted") {
		return true
	}
	for _, f := range rec.Fields {
		if strings.HasPrefix(f.Value, "REDACTED(") {
			return true
		}
	}
	return false
}

func printFindings(p *program, findings []explain.Finding) {
	for _, f := range findings {
		word := "likely"
		if f.Proved {
			word = "proved"
		}
		p.printf("%s: %s\n", word, f.Cause.Sentence())
		p.printf("  %-20s  %s\n", f.Cause, sanitize(f.Detail))
		if f.Signed != f.Came {
			p.printf("  %-20s  %s\n", "signed", sanitize(f.Signed))
			p.printf("  %-20s  %s\n", "came", sanitize(f.Came))
			if f.At > 0 {
				p.printf("  %-20s  %s\n", "differ at byte", fmt.Sprint(f.At))
			}
		}
		p.printf("  %-20s  %s\n", "what to do", f.Cause.Remedy())
	}
}

// minColumn is how wide each of two bases side by side is at least, in characters.
const minColumn = 36

// printBases prints two signature bases side by side, and on a narrow terminal one above the other.
// What differs is marked below it.
func printBases(p *program, b *explain.Bases) {
	if b == nil {
		return
	}
	width := p.width() - len("  ")
	column := (width - len(" | ")) / 2
	narrow := column < minColumn
	if narrow {
		column = max(width, 1)
	}
	titles := [2]string{"the base that was signed", "our base"}
	rows := [][2]string{titles}
	for i := range b.Signed {
		rows = append(rows, compared(b.Signed[i], b.Ours[i], column)...)
	}
	for side := range titles {
		for _, row := range rows {
			if narrow && row[side] != "" {
				p.printf("  %s\n", row[side])
			} else if !narrow && side == 0 {
				p.printf("%s\n", strings.TrimRight(fmt.Sprintf("  %-*s | %s", column, row[0], row[1]), " "))
			}
		}
	}
}

// compared returns the rows of two lines, and below them marks where they differ.
func compared(left, right string, width int) (rows [][2]string) {
	a, b := []rune(left), []rune(right)
	from, end, least := 0, 0, min(len(a), len(b))
	for from < least && a[from] == b[from] {
		from++
	}
	for end < least-from && a[len(a)-1-end] == b[len(b)-1-end] {
		end++
	}
	marks := func(line []rune) []rune {
		if left == right {
			return nil
		}
		return []rune(strings.Repeat(" ", from) + strings.Repeat("^", max(1, len(line)-end-from)))
	}
	add := func(a, b []rune, i int) {
		part := func(of []rune) string {
			return strings.TrimRight(string(of[min(i, len(of)):min(i+width, len(of))]), " ")
		}
		if part(a)+part(b) != "" {
			rows = append(rows, [2]string{part(a), part(b)})
		}
	}
	for i := 0; i <= max(len(a), len(b)); i += width {
		add(a, b, i)
		add(marks(a), marks(b), i)
	}
	return rows
}
