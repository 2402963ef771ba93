// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// AttributeTo moves the findings of a rendered bundle to the source files of its
// objects. files returns the files that may define a field of an object, such as
// "Deployment" "manager": patches first, the file of the object last; none if they
// are unknown. All other findings are attributed to file, without a line. rendered
// are the manifests of the bundle.
func (v *Report) AttributeTo(file string, rendered []byte, files func(kind, name string) []string) {
	sources := sources{"": objectsIn(rendered)}
	for i := range v.Bundles {
		for j := range v.Bundles[i].Findings {
			f := &v.Bundles[i].Findings[j]
			kind, name, _ := strings.Cut(f.Object, " ")
			name = name[strings.LastIndex(name, "/")+1:]
			f.File, f.Line = file, 0
			path, value := f.Field, contract.Value{}
			if o := sources.object("", kind, name); o != nil {
				path, value = byName(o, f.Field), o.AtPath(f.Field)
			}
			if at, line := sources.find(files(kind, name), kind, name, path, value); line > 0 {
				f.File, f.Line = at, line
			}
		}
	}
}

// sources maps files to their objects, and "" to the rendered objects.
type sources map[string][]*contract.Object

// find returns the first file that sets the field of an object to its rendered
// value, and the line. If no file has the field, it returns the position of the
// field's nearest parent in the last file. The line is 0 if the value comes from
// elsewhere, such as a JSON patch.
func (s sources) find(files []string, kind, name, path string, rendered contract.Value) (file string, line int) {
	for _, candidate := range files {
		o := s.object(candidate, kind, name)
		if o == nil {
			continue
		}
		value := o.AtPath(path)
		switch {
		case value.Node == nil:
			file, line = candidate, value.Line()
		case comesFrom(rendered.Node, value.Node):
			return candidate, value.Line()
		default:
			file, line = "", 0
		}
	}
	return file, line
}

// comesFrom reports whether a rendered value may come from a value in a source:
// scalars must be equal, except for the prefix and suffix of names; other values
// are not compared.
func comesFrom(rendered, value *yaml.Node) bool {
	if rendered == nil || value.Kind != yaml.ScalarNode || rendered.Kind != yaml.ScalarNode {
		return rendered != nil && value.Kind == rendered.Kind
	}
	return strings.Contains(rendered.Value, value.Value)
}

// object returns the object in a file that is rendered with a kind and name; nil if
// there is none. kustomize may add a prefix and a suffix to the name.
func (s sources) object(file, kind, name string) (best *contract.Object) {
	if _, known := s[file]; !known {
		s[file] = readSource(file)
	}
	for _, o := range s[file] {
		isOrigin := o.Kind.Kind == kind && o.Name != "" && strings.Contains(name, o.Name)
		if isOrigin && (best == nil || len(o.Name) > len(best.Name)) {
			best = o
		}
	}
	return best
}

// readSource returns the objects of a file; none if it cannot be read, because
// kustomize has already reported that.
func readSource(file string) []*contract.Object {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	if content, err = yamldoc.ToUTF8(content); err != nil {
		return nil
	}
	return objectsIn(content)
}

// objectsIn returns the objects of a YAML stream, without invalid documents.
func objectsIn(content []byte) []*contract.Object {
	return contract.Read(extractor.Bundle{Manifests: content}).Objects
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// byName returns the path of a field with the names of elements in place of their
// indexes, which differ in patches and sources.
func byName(o *contract.Object, field string) (path string) {
	end := 0
	for _, at := range index.FindAllStringIndex(field, -1) {
		step := field[at[0]:at[1]]
		if name := o.AtPath(field[:at[1]]).At("name").Text(); name != "" {
			step = "[" + name + "]"
		}
		path, end = path+field[end:at[0]]+step, at[1]
	}
	return path + field[end:]
}
