// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"text/template"
	"time"
)

// writeKrew writes the manifest of the kubectl plugin from the template in hack/ci.
func (b build) writeKrew() error {
	text, err := os.ReadFile(filepath.Join(b.root, "hack/ci/krew.yaml"))
	if err != nil {
		return err
	}
	missing := map[string]bool{}
	parsed, err := template.New("krew.yaml").Funcs(template.FuncMap{"addURIAndSha": func(uri, tag string) (string, error) {
		uri = strings.ReplaceAll(uri, "{{ .TagName }}", tag)
		sum, err := b.sum(uri[strings.LastIndex(uri, "/")+1:])
		if os.IsNotExist(err) {
			missing[uri], err = true, nil // a release for some platforms only
		}
		return "uri: " + uri + "\n    sha256: " + sum, err
	}}).Parse(string(text))
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, map[string]string{"TagName": b.version}); err != nil {
		return err
	}
	if len(missing) > 0 && len(b.platforms) == len(allPlatforms) {
		return fmt.Errorf("hack/ci/krew.yaml names archives that the release does not have: %v", missing)
	}
	return b.write("capi-manifests.krew.yaml", out.Bytes())
}

// moveChanges moves the unreleased changes in CHANGELOG.md to the version, and prints them as release notes.
func (b build) moveChanges(now time.Time, notes io.Writer) error {
	if err := b.checkVersion(); err != nil {
		return err
	}
	file := filepath.Join(b.root, "CHANGELOG.md")
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	const unreleased = "## [Unreleased]"
	text, heading := string(content), "## ["+strings.TrimPrefix(b.version, "v")+"]"
	changes := section(text, unreleased)
	if changes == "" || strings.Contains(text, heading) {
		return fmt.Errorf("CHANGELOG.md has no unreleased changes, or has section %s already", heading)
	}
	text = strings.Replace(text, unreleased, unreleased+"\n\n"+heading+" - "+now.Format(time.DateOnly), 1)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return err
	}
	_, err = fmt.Fprintln(notes, changes)
	return err
}

// writeNotes writes the section of the version in CHANGELOG.md, or else of the unreleased changes.
func (b build) writeNotes() error {
	text, err := os.ReadFile(filepath.Join(b.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	notes := section(string(text), "## ["+strings.TrimPrefix(b.version, "v")+"]")
	if notes == "" {
		notes = section(string(text), "## [Unreleased]")
	}
	if notes == "" {
		return fmt.Errorf("CHANGELOG.md has no section about %s", b.version)
	}
	notes = relativeLink.ReplaceAllString(notes, "]("+source+"/blob/"+b.version+"/$1)")
	return b.write("release-notes.md", []byte("# "+b.version+"\n\n"+notes+"\n"))
}

// relativeLink matches a link to a file of the repository. The notes are read elsewhere.
var relativeLink = regexp.MustCompile(`\]\(([A-Za-z][^):]*)\)`)

// section returns the text of a section, without its heading.
func section(text, heading string) string {
	_, rest, found := strings.Cut(text, heading)
	if !found {
		return ""
	}
	_, rest, _ = strings.Cut(rest, "\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	return strings.TrimSpace(rest)
}

// statement is an in-toto statement with a SLSA provenance predicate, https://slsa.dev/spec/v1.0/provenance.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []subject  `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     provenance `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type provenance struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID      string            `json:"id"`
			Version map[string]string `json:"version"`
		} `json:"builder"`
	} `json:"runDetails"`
}

type dependency struct {
	URI    string            `json:"uri"`
	Digest map[string]string `json:"digest"`
}

const (
	provenanceFile = "provenance.intoto.json"
	checksums      = "SHA256SUMS"
)

// writeProvenance describes how the artifacts were built.
func (b build) writeProvenance(context.Context) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	names, err := b.artifacts()
	if err != nil {
		return err
	}
	for _, name := range names {
		sum, err := b.sum(name)
		if err != nil {
			return err
		}
		s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": sum}})
	}
	definition := &s.Predicate.BuildDefinition
	definition.BuildType = source + "/blob/" + b.revision + "/RELEASE.md"
	definition.ExternalParameters = map[string]string{"command": "make release VERSION=" + b.version, "image": b.repository}
	definition.ResolvedDependencies = []dependency{{"git+" + source, map[string]string{"gitCommit": b.revision}}}
	s.Predicate.RunDetails.Builder.ID = source + "/blob/" + b.revision + "/hack/release"
	s.Predicate.RunDetails.Builder.Version = map[string]string{"go": runtime.Version()}
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return b.write(provenanceFile, append(content, '\n'))
}

// writeChecksums writes the sums of all files, as sha256sum does.
func (b build) writeChecksums() error {
	names, err := b.artifacts()
	if err != nil {
		return err
	}
	var out bytes.Buffer
	for _, name := range names {
		sum, err := b.sum(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
	}
	return b.write(checksums, out.Bytes())
}

// artifacts returns the names of the files written so far, sorted.
func (b build) artifacts() (names []string, err error) {
	entries, err := os.ReadDir(b.output)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names, err
}

// sum returns the SHA-256 digest of a file.
func (b build) sum(name string) (string, error) {
	content, err := os.ReadFile(filepath.Join(b.output, name))
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:]), err
}
