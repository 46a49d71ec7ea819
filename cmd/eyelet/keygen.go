package main

import (
	"os"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/eyelet-dev/eyelet/cmd/eyelet/internal/config"
	"github.com/eyelet-dev/eyelet/internal/usage"
	"github.com/eyelet-dev/eyelet/verify"
)

func keygenCommand(p *program) *cobra.Command {
	c := &cobra.Command{
		Use:   "keygen",
		Short: "Generate a key and print its settings",
		Long: "Generates a key pair (NAME.pem for the producer, NAME.pub.pem for the receiver) or, for\n" +
			"hmac-sha256, a shared secret (NAME.secret), and prints the settings for eyelet.yaml.",
		Args: cobra.NoArgs,
	}
	alg := c.Flags().String("alg", string(verify.Ed25519),
		"algorithm: ed25519, hmac-sha256, ecdsa-p256-sha256, ecdsa-p384-sha384 or rsa-pss-sha512")
	id := c.Flags().String("keyid", "", "id of the key (default NAME)")
	name := c.Flags().String("name", "shop", "name of the producer and of the files")
	dir := c.Flags().String("dir", ".", "folder to write to")
	format := outputFlag(c)
	c.RunE = func(*cobra.Command, []string) error {
		if *id == "" {
			*id = *name
		}
		return keygen(p, verify.Alg(*alg), *id, *name, *dir, *format)
	}
	return c
}

// plainWord matches names that need no quotes in YAML.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,62}$`)

func keygen(p *program, alg verify.Alg, id, name, dir, format string) error {
	if !plainWord.MatchString(name) || !plainWord.MatchString(id) {
		return usage.Errorf(`write letters, digits, "-", "_" and "."`, "a key needs a plain name and id, not %q and %q",
			name, id)
	}
	secret, setting, file := name+".pem", "public_key_file", name+".pub.pem"
	if alg == verify.HMACSHA256 {
		secret, setting, file = name+".secret", "secret_file", name+".secret"
		if err := writeNewFile(filepath.Join(dir, secret), append(verify.GenerateSecret(), '\n')); err != nil {
			return err
		}
	} else if err := writeKeyPair(alg, filepath.Join(dir, name)); err != nil {
		return err
	}
	p.eprintf("wrote %s, which the producer keeps secret\n", filepath.Join(dir, secret))
	return p.result(format, map[string]any{"producer": name, "id": id, "alg": alg, setting: filepath.Join(dir, file),
		"secret": filepath.Join(dir, secret)}, "producers:\n  %s:\n    scheme: rfc9421\n    keys:\n"+
		"      - {id: %s, alg: %s, %s: %s}\n", name, id, alg, setting, file)
}

func writeKeyPair(alg verify.Alg, path string) error {
	private, err := verify.GenerateKey(alg)
	if err != nil {
		return usage.Errorf(usage.DidYouMean(string(alg), config.Algorithms()), "%v", err)
	}
	secretPEM, err := verify.MarshalPrivateKey(private)
	if err != nil {
		return err
	}
	publicPEM, err := verify.MarshalPublicKey(private.Public())
	if err != nil {
		return err
	}
	if err := writeNewFile(path+".pem", secretPEM); err != nil {
		return err
	}
	if err := writeNewFile(path+".pub.pem", publicPEM); err != nil {
		_ = os.Remove(path + ".pem") // best effort: the key belongs to nothing
		return err
	}
	return nil
}

// writeNewFile writes a file that only its owner can read. It never overwrites one.
func writeNewFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if os.IsExist(err) {
		return usage.Errorf("choose another --name or --dir, or move the file away", "%s is there already", path)
	} else if err != nil {
		return usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return usage.Errorf("", "%s: %s", path, usage.Cause(err))
	}
	return nil
}
