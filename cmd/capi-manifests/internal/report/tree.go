// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// TreeNode is a node of the tree of image, component, phase, kind and object. A component also has its settings.
type TreeNode struct {
	// Is is the type of the node: image, component, setting, phase, kind or object.
	Is   string `json:"is"`
	Name string `json:"name"`
	// Below are the child nodes in install order.
	Below []*TreeNode `json:"below,omitempty"`
}

// NewTree returns a node for each image of a set of components, in the order of its first component. name
// and number identify the version.
func NewTree(name string, number int64, set operand.Set, unmanaged []string) ([]*TreeNode, error) {
	release := &TreeNode{}
	for _, o := range set.Operands {
		phases, err := revision.Phases(name, number, operand.Set{Operands: []operand.Operand{o}}, unmanaged)
		if err != nil {
			return nil, err
		}
		component := release.at("image", o.Origin.Image).at("component", o.Name+" "+o.Version)
		for _, name := range o.Settings {
			component.at("setting", name)
		}
		for _, phase := range phases {
			for _, object := range phase.Objects {
				full := object.GetName()
				if namespace := object.GetNamespace(); namespace != "" {
					full = namespace + "/" + full
				}
				component.at("phase", phase.Name).at("kind", object.GetKind()).at("object", full)
			}
		}
	}
	return release.Below, nil
}

// at returns the child node with a name, and adds it if necessary.
func (n *TreeNode) at(is, name string) *TreeNode {
	for _, below := range n.Below {
		if below.Name == name {
			return below
		}
	}
	child := &TreeNode{Is: is, Name: name}
	n.Below = append(n.Below, child)
	return child
}

// Draw writes the node and its descendants.
func (n *TreeNode) Draw(w *bytes.Buffer) { n.draw(w, "", "") }

// draw writes the node and its descendants. Its own line begins with first, theirs
// with rest.
func (n *TreeNode) draw(w *bytes.Buffer, first, rest string) {
	w.WriteString(first + n.Name + "\n")
	for i, below := range n.Below {
		if i == len(n.Below)-1 {
			below.draw(w, rest+"└── ", rest+"    ")
		} else {
			below.draw(w, rest+"├── ", rest+"│   ")
		}
	}
}
