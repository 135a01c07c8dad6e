"""The large model speaks and is overheard: loading, adapters, the cache with a length per row, runners."""
