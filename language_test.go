// SPDX-License-Identifier: Apache-2.0

//go:build lint

// The check of wording runs with the linters: make lint.

package capiinstaller

import (
	"cmp"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// languageOf makes TestLanguage list every mark in a folder and below it, also
// where it is allowed: go test -tags lint . -run TestLanguage -language install/version
var languageOf = flag.String("language", "", "list all marks in a `folder`, also those that are allowed")

// Limits of a folder. Projects that Kubernetes developers read, such as
// controller-runtime, go-containerregistry and boxcutter, stay below them.
const (
	maxWhat      = 10 // clauses with "what" in 1,000 comment lines and messages
	maxTestName  = 60 // characters
	maxTestWords = 3  // words of a test name without underscore
)

// mark is wording that makes readers read a sentence twice.
type mark struct {
	name    string
	pattern *regexp.Regexp
	// messagesOnly marks are allowed in comments.
	messagesOnly bool
	// instead is the advice in the failure.
	instead string
}

var what = mark{"what", regexp.MustCompile(`(?i)\bwhat\b`), false, "name the noun"}

// forbiddenMarks may not occur at all.
var forbiddenMarks = []mark{
	{"nobody", regexp.MustCompile(`(?i)\bnobody\b`), false, "name the actor"},
	{"somebody", regexp.MustCompile(`(?i)\bsomebody\b`), false, "name the actor"},
	{"everybody", regexp.MustCompile(`(?i)\beverybody\b`), false, "name the actor"},
	{"whoever", regexp.MustCompile(`(?i)\bwhoever\b`), false, "name the actor"},
	{"anybody", regexp.MustCompile(`(?i)\banybody\b`), false, "name the actor"},
	{"anew", regexp.MustCompile(`(?i)\banew\b`), false, "again, or recreate"},
	{"any more", regexp.MustCompile(`(?i)\bany more\b`), false, "no longer"},
	{"whatever", regexp.MustCompile(`(?i)\bwhatever\b`), false, "any, or independent of"},
	{"tells of", regexp.MustCompile(`(?i)\btells? of\b`), false, "reports"},
	{"lies in", regexp.MustCompile(`(?i)\blies? in\b`), false, "is in"},
	{"is not there", regexp.MustCompile(`(?i)\b(is|are|was|were) not there\b`), false, "not found, or does not exist"},
	{"is there twice", regexp.MustCompile(`(?i)\b(is|are) there (already|twice)\b|\bcomes? twice\b`), false, "already exists, or duplicate"},
	{"says whether", regexp.MustCompile(`(?i)\bsays? whether\b`), false, "reports whether"},
	{"is no", regexp.MustCompile(`(?i)\bis no\b`), true, "invalid X: want Y; or: X not found"},
}

// allowedText are phrases with a mark that are right as they are.
var allowedText = map[string]string{
	"is no longer": "the usual phrase; it does not deny a definition",
}

// allowedFiles have text that quotes the marks.
var allowedFiles = map[string]string{
	"language_test.go": "defines and plants the marks",
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	folders, err := readText(os.DirFS("."))
	must(t, err)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		folder := folders[name]
		switch {
		case *languageOf != "" && within(name, *languageOf):
			for _, found := range slices.Concat(folder.forbidden, folder.what) {
				t.Error(found)
			}
		default:
			for _, violation := range folder.violations() {
				t.Error(violation)
			}
		}
	}
}

func TestLanguage_FindsPlantedViolations(t *testing.T) {
	t.Parallel()
	planted := fstest.MapFS{
		"a/a.go": {Data: []byte("package a\n\n// IsX says\n// whether it is no longer what\n// somebody wants, and what nobody has.\nfunc IsX() {}\n" +
			"var message, tag = \"it is no name\", \"nobody\"\n// A list is no set.\n")},
		"a/a_test.go":      {Data: []byte("package a\n\n// somebody may know what\nfunc TestXYZ" + strings.Repeat("x", maxTestName) + "(t *testing.T) { t.Error(\"this is no name\", \"anew, nobody\") }\nfunc TestTheNameIsLong(t *testing.T) {}\n")},
		"manifests/a.yaml": {Data: []byte("# whoever\na: &x\n  - somebody else\n")},
		"test/a.yaml":      {Data: []byte("# whoever\n")},
		"b/b.go":           {Data: []byte("// SPDX-License-Identifier: nobody\n\n//go:build whoever\n\n" + strings.Repeat("// A comment.\n", 99) + "// What is one in a hundred.\npackage b\n")},
		"docs/a.md":        {Data: []byte("# A\n\nSomebody starts\nanew.\n\n```sh\nwhoever\n```\n\nX is no Y.\n")},
		"docs/b.txt":       {Data: []byte("nobody\n")},
		"docs/c.md":        {Data: []byte("Anybody lies in it, whatever it tells of.\n\nIt is not there any more, or is there twice.\n")},
	}
	want := []string{
		`a/a.go:3: "nobody": name the actor`,
		`a/a.go:3: "somebody": name the actor`,
		`a/a.go:3: "says whether": reports whether`,
		`a/a.go:7: "is no": invalid X: want Y; or: X not found`,
		`a/a_test.go:4: the name of TestXYZ` + strings.Repeat("x", maxTestName) + ` has 67 characters, more than 60`,
		`a/a_test.go:5: the name of TestTheNameIsLong has 4 words: want TestThing_Behavior`,
		`a/a_test.go:3: "somebody": name the actor`,
		`a/a_test.go:4: "nobody": name the actor`,
		`a/a_test.go:4: "anew": again, or recreate`,
		`a: 2 clauses with "what" in 5 lines, more than 10 in 1,000; list them with go test -tags lint . -run TestLanguage -language a`,
		`docs/a.md:3: "somebody": name the actor`,
		`docs/a.md:3: "anew": again, or recreate`,
		`docs/a.md:10: "is no": invalid X: want Y; or: X not found`,
		`docs/c.md:1: "anybody": name the actor`,
		`docs/c.md:1: "whatever": any, or independent of`,
		`docs/c.md:1: "tells of": reports`,
		`docs/c.md:1: "lies in": is in`,
		`docs/c.md:3: "any more": no longer`,
		`docs/c.md:3: "is not there": not found, or does not exist`,
		`docs/c.md:3: "is there twice": already exists, or duplicate`,
		`manifests/a.yaml:1: "somebody": name the actor`,
		`manifests/a.yaml:1: "whoever": name the actor`,
	}
	folders, err := readText(planted)
	must(t, err)
	var got []string
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		got = append(got, folders[name].violations()...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// folderText is the text of the files in one folder.
type folderText struct {
	name string
	// lines counts comment lines, messages and lines of prose.
	lines int
	// what and forbidden are the marks, each with its position.
	what, forbidden []string
}

// violations returns the findings of a folder. One clause with "what" is always allowed.
func (f *folderText) violations() []string {
	violations := slices.Clone(f.forbidden)
	if len(f.what) > max(1, f.lines*maxWhat/1000) {
		violations = append(violations, fmt.Sprintf("%s: %d clauses with \"what\" in %d lines, more than %d in 1,000; list them with go test -tags lint . -run TestLanguage -language %[1]s",
			f.name, len(f.what), f.lines, maxWhat))
	}
	return violations
}

// add looks for marks in a paragraph that begins on a line of a file.
func (f *folderText) add(file string, line int, text string, isMessage bool) {
	if allowedFiles[file] != "" {
		return
	}
	text = plainText(text)
	for range what.pattern.FindAllString(text, -1) {
		f.what = append(f.what, what.at(file, line))
	}
	f.addForbidden(file, line, text, isMessage)
}

// plainText returns a text on one line, without the allowed phrases.
func plainText(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for phrase := range allowedText {
		text = strings.ReplaceAll(text, phrase, "")
	}
	return text
}

// addForbidden looks for marks that may not occur in a paragraph.
func (f *folderText) addForbidden(file string, line int, text string, isMessage bool) {
	if allowedFiles[file] != "" {
		return
	}
	for _, mark := range forbiddenMarks {
		if mark.messagesOnly && !isMessage {
			continue
		}
		for range mark.pattern.FindAllString(text, -1) {
			f.forbidden = append(f.forbidden, mark.at(file, line))
		}
	}
}

func (m mark) at(file string, line int) string {
	return fmt.Sprintf("%s:%d: %q: %s", file, line, m.name, m.instead)
}

// readText reads the comments and messages of Go files, and the prose of
// Markdown files, templates and the release manifests, by folder.
func readText(tree fs.FS) (map[string]*folderText, error) {
	folders := map[string]*folderText{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "_output", "testdata"}, entry.Name()):
			return fs.SkipDir
		case entry.IsDir():
			return nil
		}
		folder := cmp.Or(folders[path.Dir(name)], &folderText{name: path.Dir(name)})
		switch path.Ext(name) {
		case ".go":
			err = folder.addGo(tree, name)
		case ".md", ".tmpl":
			err = folder.addProse(tree, name)
		case ".yaml":
			if !within(name, "manifests") {
				return nil
			}
			err = folder.addProse(tree, name)
		default:
			return nil
		}
		folders[folder.name] = folder
		return err
	})
	return folders, err
}

// addGo reads a Go file. Of tests, "what" is not counted, and messages may say "is no".
func (f *folderText) addGo(tree fs.FS, name string) error {
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return err
	}
	line := func(node ast.Node) int { return files.Position(node.Pos()).Line }
	isTest := strings.HasSuffix(name, "_test.go")
	if isTest {
		f.addTestNames(name, file, line)
	}
	for _, group := range file.Comments {
		text := commentText(group)
		if isTest {
			f.addForbidden(name, line(group), plainText(strings.Join(text, " ")), false)
			continue
		}
		f.lines += len(text)
		f.add(name, line(group), strings.Join(text, " "), false)
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			node.Tag = nil
		case *ast.BasicLit:
			if text, err := strconv.Unquote(node.Value); err == nil && strings.Contains(text, " ") && node.Kind == token.STRING {
				if isTest {
					f.addForbidden(name, line(node), plainText(text), false)
					return true
				}
				f.lines++
				f.add(name, line(node), text, true)
			}
		}
		return true
	})
	return nil
}

// commentText returns the lines of a comment without the licence, directives and
// blank lines.
func commentText(group *ast.CommentGroup) []string {
	var text []string
	for _, comment := range group.List {
		if strings.HasPrefix(comment.Text, "// SPDX-") || strings.HasPrefix(comment.Text, "//go:") || strings.HasPrefix(comment.Text, "//nolint") {
			continue
		}
		for line := range strings.SplitSeq(comment.Text, "\n") {
			if line = strings.Trim(line, "/* \t"); line != "" {
				text = append(text, line)
			}
		}
	}
	return text
}

var (
	testPrefix = regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)`)
	testWord   = regexp.MustCompile(`[A-Z][a-z0-9]+|[A-Z]+`)
)

// addTestNames checks that tests begin with the thing tested, and are short.
func (f *folderText) addTestNames(name string, file *ast.File, line func(ast.Node) int) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil || !testPrefix.MatchString(function.Name.Name) {
			continue
		}
		test := function.Name.Name
		if len(test) > maxTestName {
			f.forbidden = append(f.forbidden, fmt.Sprintf("%s:%d: the name of %s has %d characters, more than %d", name, line(function), test, len(test), maxTestName))
		}
		if words := testWord.FindAllString(testPrefix.ReplaceAllString(test, ""), -1); !strings.Contains(test, "_") && len(words) > maxTestWords {
			f.forbidden = append(f.forbidden, fmt.Sprintf("%s:%d: the name of %s has %d words: want TestThing_Behavior", name, line(function), test, len(words)))
		}
	}
}

// addProse reads the paragraphs of a Markdown file or a template, without code blocks.
func (f *folderText) addProse(tree fs.FS, name string) error {
	content, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	number, start, inCode := 0, 0, false
	var paragraph strings.Builder
	finish := func() {
		f.add(name, start, paragraph.String(), true)
		paragraph.Reset()
	}
	for line := range strings.Lines(string(content)) {
		number++
		switch fence := strings.HasPrefix(strings.TrimSpace(line), "```"); {
		case fence:
			inCode = !inCode
			finish()
		case inCode:
		case strings.TrimSpace(line) == "":
			finish()
		default:
			if paragraph.Len() == 0 {
				start = number
			}
			f.lines++
			paragraph.WriteString(line)
		}
	}
	finish()
	return nil
}
