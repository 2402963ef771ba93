# SPDX-License-Identifier: Apache-2.0
"""Links from docs to other files of the repository lead to the repository: the site has only docs. The reference and the pages for
maintainers are not in the search."""
import json
import posixpath
import re

from mkdocs.plugins import event_priority

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")
UNSEARCHED = re.compile(r"(reference|maintainers)/|(decisions|development|guarantees)\.html")


def on_page_markdown(markdown, page, config, **_):
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def absolute(found):
        path = posixpath.normpath(posixpath.join(folder, found.group(1)))
        if path.startswith("docs/") and path.endswith(".md"):
            return found.group(0)
        return "](%s/blob/main/%s" % (config["repo_url"], path)

    return LINK.sub(absolute, markdown)


@event_priority(-100)  # after the plugin search has written its index
def on_post_build(config, **_):
    # Without its operators, the search does not reject a flag such as --wait.
    worker = posixpath.join(config["site_dir"], "search", "worker.js")
    with open(worker, encoding="utf-8") as file:
        script = file.read()
    words = script.replace("index.search(query)", "index.search(query.replace(/[-+:^~*]/g, ' '))")
    assert words != script, "search/worker.js of this mkdocs has another call of the search"
    with open(worker, "w", encoding="utf-8") as file:
        file.write(words)
    name = posixpath.join(config["site_dir"], "search", "search_index.json")
    with open(name, encoding="utf-8") as file:
        index = json.load(file)
    index["docs"] = [page for page in index["docs"] if not UNSEARCHED.match(page["location"])]
    with open(name, "w", encoding="utf-8") as file:
        json.dump(index, file)
