# SPDX-License-Identifier: Apache-2.0
"""Links from docs to other files of the repository lead to the repository: the site has only docs."""
import posixpath
import re

LINK = re.compile(r"\]\((?!https?://|#)([^)#\s]+)")


def on_page_markdown(markdown, page, config, **_):
    folder = posixpath.join("docs", posixpath.dirname(page.file.src_uri))

    def absolute(found):
        path = posixpath.normpath(posixpath.join(folder, found.group(1)))
        if path.startswith("docs/") and path.endswith(".md"):
            return found.group(0)
        return "](%s/blob/main/%s" % (config["repo_url"], path)

    return LINK.sub(absolute, markdown)
