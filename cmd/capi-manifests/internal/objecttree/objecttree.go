// SPDX-License-Identifier: Apache-2.0

// Package objecttree shows components as a tree of image, component, phase, kind and object.
package objecttree

import (
	"bytes"

	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Node is a node of a tree.
type Node struct {
	// Is is the type of the node: image, component, phase, kind or object.
	Is   string `json:"is"`
	Name string `json:"name"`
	// Below are the child nodes in install order.
	Below []*Node `json:"below,omitempty"`
}

// New returns a node for each image of a set of components, in the order of its first component. name
// and number are those of the version.
func New(name string, number int64, set operand.Set, unmanaged []string) ([]*Node, error) {
	release := &Node{}
	for _, o := range set.Operands {
		phases, err := revision.Phases(name, number, operand.Set{Operands: []operand.Operand{o}}, unmanaged)
		if err != nil {
			return nil, err
		}
		component := release.at("image", o.Origin.Image).at("component", o.Name+" "+o.Version)
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
func (n *Node) at(is, name string) *Node {
	for _, below := range n.Below {
		if below.Name == name {
			return below
		}
	}
	child := &Node{Is: is, Name: name}
	n.Below = append(n.Below, child)
	return child
}

// Draw writes the node and its descendants.
func (n *Node) Draw(w *bytes.Buffer) { n.draw(w, "", "") }

// draw writes the node and its descendants. Its own line begins with first, theirs
// with rest.
func (n *Node) draw(w *bytes.Buffer, first, rest string) {
	w.WriteString(first + n.Name + "\n")
	for i, below := range n.Below {
		if i == len(n.Below)-1 {
			below.draw(w, rest+"└── ", rest+"    ")
		} else {
			below.draw(w, rest+"├── ", rest+"│   ")
		}
	}
}
