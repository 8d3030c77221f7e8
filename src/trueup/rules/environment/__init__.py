"""Rules of what is installed and attached: packages, extensions, compilers, drivers, caches."""
