// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/internal/variable"
)

// documents returns the Markdown files for readers.
func documents(t *testing.T) []string {
	t.Helper()
	return sourceFiles(t, ".md")
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	must(t, err)
	return string(content)
}

func TestDocuments_MakeTargetsExist(t *testing.T) {
	makefile := read(t, "Makefile")
	mention := regexp.MustCompile("(?m)(?:`|^)make ([a-z0-9]+)")
	found := 0
	for _, name := range documents(t) {
		for _, match := range mention.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s: make target %s not found", name, match[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d make targets found, want 5 or more", found)
	}
}

func TestDocuments_NamedTestsExist(t *testing.T) {
	existing := definedTests(t)
	mention := regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z]\\w*)`")
	found := 0
	for _, name := range append(documents(t), "test/mutants/found.txt") {
		for _, match := range mention.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !existing[match[1]] {
				t.Errorf("%s: test %s not found", name, match[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d tests found in documents, want 20 or more", found)
	}
}

// definedTests are the names of all tests, benchmarks and fuzz tests.
func definedTests(t *testing.T) map[string]bool {
	t.Helper()
	defined := regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz)\w+)\(`)
	found := map[string]bool{}
	for _, name := range sourceFiles(t, "_test.go") {
		for _, match := range defined.FindAllStringSubmatch(read(t, name), -1) {
			found[match[1]] = true
		}
	}
	return found
}

// A Go file is named with its folders, or with the last of them, and not as a part of a URL.
func TestDocuments_NamedFilesExist(t *testing.T) {
	mention := regexp.MustCompile(`(?:^|[\s\x60(])([\w./-]+\.go)\b`)
	existing := sourceFiles(t, ".go")
	found := 0
	for _, name := range documents(t) {
		for _, match := range mention.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !slices.ContainsFunc(existing, func(file string) bool { return strings.HasSuffix("/"+file, "/"+match[1]) }) {
				t.Errorf("%s: file %s not found", name, match[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d files found in documents, want 30 or more", found)
	}
}

// A link names a file, and a heading of it: without mkdocs, no other test finds a heading that was renamed.
func TestDocuments_LinksResolve(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:\s]*)(?:#([^)\s]+))?\)`)
	for _, name := range documents(t) {
		for _, match := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := name
			if match[1] != "" {
				target = filepath.Join(filepath.Dir(name), match[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			} else if match[2] != "" && strings.HasSuffix(target, ".md") && !slices.Contains(anchors(read(t, target)), match[2]) {
				t.Errorf("%s links to %s: %s has no such heading", name, match[0], target)
			}
		}
	}
}

// anchors returns the names that GitHub and mkdocs give to the headings of a page.
func anchors(page string) (names []string) {
	punctuation := regexp.MustCompile(`[^\w\- ]`)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		names = append(names, strings.ReplaceAll(punctuation.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-"))
	}
	return names
}

// TestDocuments_CommandsNameOneKindOfCluster: the commands of a block are for a cluster with or without OpenShift, which have other names.
func TestDocuments_CommandsNameOneKindOfCluster(t *testing.T) {
	block := regexp.MustCompile("(?s)```sh\n.*?```")
	openshift := regexp.MustCompile(`\bopenshift-(cluster-api|capi-installer|config)[\w-]*`)
	found := 0
	for _, name := range documents(t) {
		for _, commands := range block.FindAllString(read(t, name), -1) {
			if strings.Contains(commands, "capi-installer-system") {
				found++
				if mixed := openshift.FindString(commands); mixed != "" {
					t.Errorf("%s names %s beside capi-installer-system:\n%s", name, mixed, commands)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d blocks found, want 5 or more", found)
	}
}

// TestDocuments_ListProvidedVariables: a user finds each variable that needs no default.
func TestDocuments_ListProvidedVariables(t *testing.T) {
	for _, name := range []string{"docs/try-a-change.md", "docs/openshift.md"} {
		for _, provided := range variable.AllProvided() {
			if row := regexp.MustCompile("(?m)^\\|[^|]*`" + provided.Name + "`[^|]*\\|"); !row.MatchString(read(t, name)) {
				t.Errorf("%s has no table with %s", name, provided.Name)
			}
		}
	}
}

func TestSourceFiles_HaveALicence(t *testing.T) {
	for _, name := range append(sourceFiles(t, ".go"), sourceFiles(t, ".sh")...) {
		if content := read(t, name); !strings.Contains(content[:min(200, len(content))], "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s has no SPDX line", name)
		}
	}
}

// sourceFiles returns the files of all modules whose names have a suffix.
func sourceFiles(t *testing.T, suffix string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "_output", "testdata"}, entry.Name()):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
		return nil
	})
	must(t, err)
	return names
}

// The navigation of the site has every page.
func TestSite_NavigationHasEveryPage(t *testing.T) {
	navigation := read(t, "mkdocs.yml")
	pages := slices.DeleteFunc(documents(t), func(page string) bool { return !strings.HasPrefix(page, "docs/") })
	if len(pages) < 10 || len(pages) > 40 {
		t.Errorf("%d pages, want 10 to 40", len(pages))
	}
	for _, page := range pages {
		if !regexp.MustCompile(`(?m)^\s*- (?:\w+: )?` + regexp.QuoteMeta(strings.TrimPrefix(page, "docs/")) + "$").MatchString(navigation) {
			t.Errorf("mkdocs.yml: %s not found", page)
		}
	}
}

// The examples of the first page are examples of README.md too: a test runs those.
func TestSite_ExamplesOfTheFirstPage(t *testing.T) {
	known := read(t, "README.md")
	for line := range strings.Lines(read(t, "docs/README.md")) {
		if strings.HasPrefix(line, "capi-manifests ") && !strings.Contains(known, "\n"+line) {
			t.Errorf("README.md: example not found: %s", line)
		}
	}
}

// command is a command in a block of a page: of the pages whose names match, the lines that match.
type command struct {
	pages, lines string
	// test runs the command from the page; without one, needs tells what a test lacks.
	test, needs string
}

// commands are all commands of the pages. The first entry that matches counts.
var commands = []command{
	{pages: `^docs/registries`, lines: `\| oc apply`, test: "TestPrivateRegistries_CommandsWork"},
	{pages: `.`, lines: `^cosign |^identity=`, needs: "cosign, and the transparency log of sigstore"},
	{pages: `.`, lines: `skopeo copy`, needs: "skopeo"},
	{pages: `^README`, lines: `^make demo`, test: "TestDemo"},
	{pages: `.`, lines: `^make test`, test: "TestWorkflows_RunTheTestsOfREADME"},
	{pages: `.`, lines: `^make |^go (test|build|run) `, test: "TestDocuments_BuildCommandsParse"},
	{pages: `^README`, lines: `^ln -s`, test: "TestPlugin_RunsUnderKubectl"},
	{pages: `metrics`, lines: ` logs `, test: "TestJourney"},
	{pages: `^README`, lines: `^kubectl capi-manifests `, test: "TestREADME_ExamplesOfThePluginWork"},
	{pages: `^docs/README`, lines: `capi-manifests `, test: "TestSite_ExamplesOfTheFirstPage"},
	{pages: `^README|add-a-provider`, lines: `^(capi-manifests|mv) `, test: "TestREADME_ExamplesWork"},
	{pages: `^README|runtime-extensions`, lines: `capi-extension `, test: "TestPages_CommandsWork"},
	{pages: `settings|try-a-change`, lines: `^capi-manifests `, test: "TestPages_CommandsWork"},
	{pages: `registries`, lines: `^capi-manifests (sign|inspect)`, test: "TestPages_CommandsWork"},
	{pages: `registries|metrics`, lines: `^capi-manifests status$|signatureVerdicts`, test: "TestREADME_ExamplesOfThePluginWork"},
	{pages: `registries|/install`, lines: `^(capi-manifests (check|mirror)|kubectl .* (capi-installer-registries|capi-installer-pull-secret|registry.example.com|clusterapi cluster)|tar) ?`, test: "TestPrivateRegistries_CommandsWork"},
	{pages: `README|SECURITY|conditions|metrics|settings|try-a-change`, lines: `^kubectl `, test: "TestPages_KubectlExamplesWork"},
	{pages: `RELEASE`, lines: `^(base64|openssl|sha256sum) `, test: "TestRelease_IsReproducible"},
	{pages: `RELEASE`, lines: `^for `, needs: "skopeo"},
	{pages: `from-clusterctl`, lines: `capi-operator-system|core=capi-operator|^for kind`, test: "TestKubernetes_FromClusterAPIOperator"},
	{pages: `from-clusterctl`, lines: `^kubectl `, test: "TestKubernetes_FromClusterctl"},
	{pages: `walkthrough`, lines: `.`, test: "TestKubernetes_Walkthrough"},
	{pages: `lifecycle-hooks`, lines: `.`, test: "TestKubernetes_LifecycleHooks"},
	{pages: `openshift.md`, lines: `.`, test: "TestReplacement_DocumentedCommands"},
	{pages: `upgrade`, lines: `^capi-manifests rollback`, test: "TestHelp_ExamplesOfChangingCommandsAreRun"},
	{pages: `upgrade`, lines: `.`, test: "TestKubernetes_InstallUpgradeUninstall"},
	{pages: `install`, lines: `^helm |^capi-installer |^kubectl (scale|delete crd clusterapis)`, test: "TestKubernetes_PagesFromFreshToEmpty"},
	{pages: `install.md$`, lines: `--server-side`, test: "TestManifests_InstallAsSingleFiles"},
	{pages: `/install`, lines: `^kubectl (apply|wait)`, test: "TestKubernetes_Walkthrough"},
	{pages: `uninstall`, lines: `^kubectl (delete (clusterapi|-k)|patch clusterapi)|^for `, test: "TestKubernetes_InstallUpgradeUninstall"},
	{pages: `uninstall`, lines: `.`, test: "TestPages_KubectlExamplesWork"},
}

// TestDocuments_CommandsAreRun: each command of a page is run by a test, or the table names what a test lacks.
func TestDocuments_CommandsAreRun(t *testing.T) {
	tests := definedTests(t)
	block := regexp.MustCompile("(?sm)^```sh\n(.*?)^```")
	run, unrun := 0, []string{}
	for _, page := range documents(t) {
		if strings.HasPrefix(page, "third_party/") {
			continue
		}
		for _, match := range block.FindAllStringSubmatch(read(t, page), -1) {
			for line := range strings.Lines(match[1]) {
				if strings.HasPrefix(line, " ") || line == "done\n" {
					continue // of a loop
				}
				i := slices.IndexFunc(commands, func(c command) bool {
					return regexp.MustCompile(c.pages).MatchString(page) && regexp.MustCompile(c.lines).MatchString(strings.TrimSpace(line))
				})
				switch {
				case i < 0:
					t.Errorf("%s: no test runs %s", page, line)
				case commands[i].needs != "":
					unrun = append(unrun, page+": "+strings.TrimSpace(line))
				case !tests[commands[i].test]:
					t.Errorf("%s: test %s not found, for %s", page, commands[i].test, line)
				default:
					run++
				}
			}
		}
	}
	t.Logf("%d commands are run, %d are not:\n%s", run, len(unrun), strings.Join(unrun, "\n"))
	if len(unrun) > 6 {
		t.Errorf("%d commands are not run, want at most 6", len(unrun))
	}
}

// TestDocuments_BuildCommandsParse makes dry runs of the commands that build something: targets, packages and flags exist.
func TestDocuments_BuildCommandsParse(t *testing.T) {
	dryRun := regexp.MustCompile(`(?m)^(make|go build -C extension|go build|go test|go run) (.*)$`)
	found := 0
	for _, page := range documents(t) {
		for _, match := range dryRun.FindAllStringSubmatch(read(t, page), -1) {
			found++
			if output, err := exec.CommandContext(t.Context(), "sh", "-c", match[1]+" -n "+match[2]).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: %v\n%s", page, match[0], err, output)
			}
		}
	}
	if found < 12 {
		t.Errorf("%d commands found", found)
	}
}
