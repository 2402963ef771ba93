// SPDX-License-Identifier: Apache-2.0

package reason_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/test/scenario"
)

func ExampleEntry_WithStep() {
	entry := reason.Of(reason.ApplyFailed)
	message := entry.WithStep("Deployment a/b: timeout.")
	fmt.Println(message)
	fmt.Println(entry.WithoutStep(message))
	fmt.Println(entry.Action())
	// Output:
	// Deployment a/b: timeout; check the API server and the named objects; the installer retries
	// Deployment a/b: timeout
	// Check the API server and the named objects.
}

// Every error has a next step, and a reason has one entry.
func TestTable_IsComplete(t *testing.T) {
	seen := map[reason.Reason]bool{}
	for _, entry := range reason.All() {
		if seen[entry.Reason] {
			t.Errorf("%s has two entries", entry.Reason)
		}
		seen[entry.Reason] = true
		if entry.Meaning == "" || entry.Subject == "" || entry.Step == "" && entry.Reason != reason.AsExpected {
			t.Errorf("%s: incomplete entry: %+v", entry.Reason, entry)
		}
		if strings.HasSuffix(entry.Step, ".") || !strings.HasSuffix(entry.Meaning, ".") {
			t.Errorf("%s: a step is a clause, and a meaning has sentences: %+v", entry.Reason, entry)
		}
		if entry.Severity == reason.Settled && entry.Subject != reason.Operator && entry.Message == "" {
			t.Errorf("%s has no message", entry.Reason)
		}
	}
	if len(seen) < 30 {
		t.Errorf("only %d reasons", len(seen))
	}
}

// Every constant of the package has an entry.
func TestConstants_HaveEntries(t *testing.T) {
	source, err := os.ReadFile("reason.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(source)) {
		name, value, is := strings.Cut(line, " Reason = ")
		if !is {
			continue
		}
		found++
		if name := strings.TrimSpace(name); reason.Of(reason.Reason(name)).Reason == "" || strings.TrimSpace(value) != fmt.Sprintf("%q", name) {
			t.Errorf("%s has no entry, or another value than its name", name)
		}
	}
	if found != len(reason.All()) {
		t.Errorf("%d constants and %d entries", found, len(reason.All()))
	}
}

const document = "../../docs/conditions.md"

// headings maps the headings of the document to the reasons in their tables.
var headings = []struct {
	heading string
	subject reason.Subject
}{
	{"## Both controllers", reason.Both}, {"## Version controller", reason.Version},
	{"## Installer controller", reason.Installer}, {"## `Available` and `Upgradeable`", reason.Operator},
}

// The tables of the document are generated: UPDATE=1 writes them.
func TestDocument_UpToDate(t *testing.T) {
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	want := string(content)
	for _, part := range headings {
		before, after, found := strings.Cut(want, part.heading+"\n\n|")
		_, after, end := strings.Cut(after, "\n\n")
		if !found || !end {
			t.Fatalf("%s has no table under %q", document, part.heading)
		}
		want = before + part.heading + "\n\n" + rows(part.subject) + "\n" + after
	}
	scenario.Golden(t, document, want)
}

// rows returns the table of the reasons of a subject.
func rows(of reason.Subject) string {
	out := &strings.Builder{}
	out.WriteString("| reason | severity | meaning | action |\n|---|---|---|---|\n")
	for _, entry := range reason.All() {
		if entry.Subject == of {
			fmt.Fprintf(out, "| `%s` | %s | %s | %s |\n", entry.Reason, severity(entry), entry.Meaning, action(entry))
		}
	}
	return out.String()
}

func severity(entry reason.Entry) string {
	text := []string{"settled", "in progress", "retryable", "terminal"}[entry.Severity]
	if entry.Subject == reason.Operator {
		text = "-"
	}
	if entry.Recheck > 0 {
		text += fmt.Sprintf("; checked every %.0f seconds", entry.Recheck.Seconds())
	}
	return text
}

// action returns the next step as a sentence with markup.
func action(entry reason.Entry) string {
	if entry.Step == "" {
		return "None."
	}
	return strings.ToUpper(entry.Step[:1]) + entry.Step[1:] + "."
}
