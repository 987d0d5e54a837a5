package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/penstock/penstock/internal/test/keytest"
)

// With --verify an archive that is not signed, or was altered, changes nothing: not even a store is made.
func TestSignedExport(t *testing.T) {
	signing, public := keytest.Pair(t)
	_, other := keytest.Pair(t)
	dir, file, plain := storeOf(t, 7), filepath.Join(t.TempDir(), "signed"), filepath.Join(t.TempDir(), "unsigned")
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--sign", signing, "--output", file)
	expect(t, ExitDone, "", "7 waiting", "export", "--store", dir, "--output", plain)
	to := filepath.Join(t.TempDir(), "new")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	altered := filepath.Join(t.TempDir(), "altered")
	if err := os.WriteFile(altered, bytes.Replace(text, []byte(`"q"`), []byte(`"p"`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, ExitUsage, "", "is not signed", "import", "--store", to, "--init", "--verify", public, "-f", plain)
	expect(t, ExitUsage, "", "with another", "import", "--store", to, "--init", "--verify", other, "-f", file)
	expect(t, ExitUsage, "", "Nothing was changed", "import", "--store", to, "--init", "--verify", public, "-f", altered)
	expect(t, ExitUsage, "", "--verify: ", "import", "--store", to, "--init", "--verify", signing, "-f", file)
	expect(t, ExitUsage, "", "--sign: ", "export", "--store", dir, "--sign", public, "--output", file)
	if _, err := os.Stat(to); !os.IsNotExist(err) {
		t.Errorf("something was made: %v", err)
	}
	expect(t, ExitDone, "7 placed", "", "import", "--store", to, "--init", "--verify", public, "-f", file)
	expect(t, ExitDone, "7 there already", "", "import", "--store", to, "-f", file)
}
