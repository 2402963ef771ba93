// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// repeats is the minimum number of equal changes that are folded.
const repeats = 3

var imagePath = regexp.MustCompile(`(?:^|\.)(?:initContainers|containers|ephemeralContainers)\[[^\]]*\]\.image$`)

// fold marks image replacements and repeated changes as folded.
func (p *ProviderChange) fold() {
	replaced := p.replacedImages()
	counts := map[string]int{}
	for change := range p.changes {
		if imagePath.MatchString(change.Path) || replaced[[2]string{compact(change.From), compact(change.To)}] {
			change.Level, change.Fold = Noise, FoldImage
		}
		if key, may := repeatable(*change); may {
			counts[key]++
		}
	}
	for change := range p.changes {
		if key, may := repeatable(*change); may && counts[key] >= repeats {
			change.Fold = FoldRepeated
		}
	}
}

// changes iterates over pointers to all changes.
func (p *ProviderChange) changes(yield func(*Change) bool) {
	for i := range p.Entries {
		for j := range p.Entries[i].Changes {
			if !yield(&p.Entries[i].Changes[j]) {
				return
			}
		}
	}
}

// replacedImages returns pairs of old and new images of containers. A flag or variable
// with the same old and new value is the same change.
func (p *ProviderChange) replacedImages() map[[2]string]bool {
	replaced := map[[2]string]bool{}
	for _, image := range p.ImageChanges {
		if image.Outcome == Changed {
			replaced[[2]string{image.From, image.To}] = true
		}
	}
	return replaced
}

// repeatable reports whether a change may be folded with equal ones, and returns their
// common key. Breaking and widening changes are never folded.
func repeatable(change Change) (key string, may bool) {
	if change.Fold != "" || change.Level == Breaking || change.Level == Widening || listedSeparately(change) {
		return "", false
	}
	return strings.Join([]string{change.Rule, change.Version, generalPath(change.Path), change.Message, compact(change.From), compact(change.To)}, "\x00"), true
}

// listedSeparately reports whether equal changes are listed one by one: whole objects, the
// storage version, conversion and contract label of a CRD, and required variables.
func listedSeparately(change Change) bool {
	return strings.HasPrefix(change.Rule, "object/") || change.Rule == "crd/storage-version" || change.Rule == "variable/required" ||
		change.Rule == "crd/conversion" && change.Level == Review || isContractLabel(change.Path)
}

func isContractLabel(path string) bool {
	label := labelPath.FindStringSubmatch(path)
	if label == nil {
		return false
	}
	_, isContract := capicontract.OfLabel(label[1])
	return isContract
}

// itemKey matches the key of a list item in a path, but not a quoted field name.
var itemKey = regexp.MustCompile(`\[[^\]"]+\]`)

// generalPath replaces the keys of list items in a path with *.
func generalPath(path string) string { return itemKey.ReplaceAllString(path, "[*]") }

// foldsOf summarizes the folded changes of entries.
func foldsOf(entries []Entry) []Fold {
	found := map[string]*Fold{}
	for _, entry := range entries {
		for _, change := range entry.Changes {
			if change.Fold == "" || change.Fold == FoldImage && repositoryChanged(change) {
				continue
			}
			common := commonOf(change)
			key := strings.Join([]string{string(change.Fold), common.Rule, common.Version, generalPath(common.Path), common.Message, compact(common.From), compact(common.To)}, "\x00")
			if found[key] == nil {
				found[key] = &Fold{Reason: change.Fold, Change: common}
			}
			found[key].add(common, entry.Object)
		}
	}
	folds := []Fold{}
	for _, fold := range found {
		folds = append(folds, *fold)
	}
	slices.SortFunc(folds, compareFolds)
	return folds
}

// repositoryChanged reports whether the repository of an image changed; ImageChanges report that.
func repositoryChanged(change Change) bool {
	return repository(compact(change.From)) != repository(compact(change.To))
}

func (f *Fold) add(change Change, object Ref) {
	f.Count++
	if f.Change.Path != change.Path {
		f.Change.Path = generalPath(change.Path)
	}
	if !slices.Contains(f.Objects, object) {
		f.Objects = append(f.Objects, object)
		slices.SortFunc(f.Objects, Ref.compare)
	}
}

// compareFolds sorts by level, worst first, and then by count, highest first.
func compareFolds(a, b Fold) int {
	return cmp.Or(
		compareLevels(a.Change.Level, b.Change.Level), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Change.Version, b.Change.Version), cmp.Compare(a.Change.Path, b.Change.Path), cmp.Compare(a.Change.Message, b.Change.Message),
		cmp.Compare(compact(a.Change.From), compact(b.Change.From)), cmp.Compare(compact(a.Change.To), compact(b.Change.To)))
}

// commonOf returns the fields that a change shares with the changes folded with it.
func commonOf(change Change) Change {
	common := Change{Rule: change.Rule, Level: change.Level, Fold: change.Fold}
	switch change.Fold {
	case FoldImage:
		common.Rule, common.Message, common.From, common.To = "image", "image", change.From, change.To
	case FoldDescription:
		common.Rule, common.Message = "description", "descriptions and examples of fields"
	case FoldRewritten:
		common.Rule, common.Message = "rewritten", change.Message
	default:
		common = change
	}
	return common
}
