"""Source code as documents (`loaders`) and as bundles (`bundler`), made of a checkout.

In: files. Out: documents, or a bundle of nodes and edges. The rest does not import this package: tables name
what it offers.
"""
