// SPDX-License-Identifier: Apache-2.0

package diff

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// repeats is how often the same change has to be there to be folded.
const repeats = 3

var imagePath = regexp.MustCompile(`(?:^|\.)(?:initContainers|containers|ephemeralContainers)\[[^\]]*\]\.image$`)

// fold marks the changes that say nothing, or the same as others.
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

// changes yields all changes, to be changed.
func (p *ProviderChange) changes(yield func(*Change) bool) {
	for i := range p.Entries {
		for j := range p.Entries[i].Changes {
			if !yield(&p.Entries[i].Changes[j]) {
				return
			}
		}
	}
}

// replacedImages are the images that took the place of others. A flag or a
// variable in which the one stood and now the other stands is the same change.
func (p *ProviderChange) replacedImages() map[[2]string]bool {
	replaced := map[[2]string]bool{}
	for _, image := range p.ImageChanges {
		if image.Is == Changed {
			replaced[[2]string{image.From, image.To}] = true
		}
	}
	return replaced
}

// repeatable says whether a change may be folded with others like it, and what
// those have in common. What breaks or allows something is never folded.
func repeatable(change Change) (key string, may bool) {
	if change.Fold != "" || change.Level == Breaking || change.Level == Widening || strings.HasPrefix(change.Rule, "object/") {
		return "", false
	}
	return strings.Join([]string{change.Rule, change.Version, general(change.Path), change.Says, compact(change.From), compact(change.To)}, "\x00"), true
}

// itemKey is the key of an item in a path; not a name in quotes, which is a field.
var itemKey = regexp.MustCompile(`\[[^\]"]+\]`)

// general is a path whatever the items of lists are.
func general(path string) string { return itemKey.ReplaceAllString(path, "[*]") }

// foldsOf are the lines that stand for the folded changes of entries.
func foldsOf(entries []Entry) []Fold {
	found := map[string]*Fold{}
	for _, entry := range entries {
		for _, change := range entry.Changes {
			if change.Fold == "" || change.Fold == FoldImage && fromElsewhere(change) {
				continue
			}
			common := commonOf(change)
			key := strings.Join([]string{string(change.Fold), common.Rule, common.Version, general(common.Path), common.Says, compact(common.From), compact(common.To)}, "\x00")
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

// fromElsewhere says whether an image comes from another repository, which is told with the images.
func fromElsewhere(change Change) bool {
	return repository(compact(change.From)) != repository(compact(change.To))
}

func (f *Fold) add(change Change, object Ref) {
	f.Count++
	if f.Change.Path != change.Path {
		f.Change.Path = general(change.Path)
	}
	if !slices.Contains(f.Objects, object) {
		f.Objects = append(f.Objects, object)
		slices.SortFunc(f.Objects, Ref.compare)
	}
}

// compareFolds puts the worst first, and then what is there most often.
func compareFolds(a, b Fold) int {
	return cmp.Or(
		compareLevels(a.Change.Level, b.Change.Level), -cmp.Compare(a.Count, b.Count), cmp.Compare(a.Reason, b.Reason),
		cmp.Compare(a.Change.Version, b.Change.Version), cmp.Compare(a.Change.Path, b.Change.Path), cmp.Compare(a.Change.Says, b.Change.Says),
		cmp.Compare(compact(a.Change.From), compact(b.Change.From)), cmp.Compare(compact(a.Change.To), compact(b.Change.To)))
}

// commonOf is what a change has in common with those that it is folded with.
func commonOf(change Change) Change {
	common := Change{Rule: change.Rule, Level: change.Level, Fold: change.Fold}
	switch change.Fold {
	case FoldImage:
		common.Rule, common.Says, common.From, common.To = "image", "image", change.From, change.To
	case FoldDescription:
		common.Rule, common.Says = "description", "descriptions and examples of fields"
	case FoldRewritten:
		common.Rule, common.Says = "rewritten", change.Says
	default:
		common = change
	}
	return common
}
