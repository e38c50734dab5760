# SPDX-License-Identifier: GPL-2.0
# Sphinx configuration; scripts/docs sets KERNEL_SOURCE, whose kernel-doc and
# Sphinx extensions are used.
import os
import re
import sys

kernel = os.environ['KERNEL_SOURCE']
tree = os.path.abspath('..')
sys.path.insert(0, os.path.join(kernel, 'Documentation/sphinx'))

with open(os.path.join(tree, 'dkms.conf'), encoding='utf-8') as conf:
    release = re.search(r'^PACKAGE_VERSION="(.*)"', conf.read(), re.M)[1]
project = 'ucb'
author = 'The ucb authors'
copyright = author

extensions = ['kerneldoc', 'automarkup']
kerneldoc_bin = os.path.join(kernel, 'scripts/kernel-doc')
kerneldoc_srctree = tree
primary_domain = 'c'
highlight_language = 'none'
html_theme = 'alabaster'
html_theme_options = {'page_width': '70em', 'description': 'USB coherent buffers'}
html_copy_source = False
