"""Where reverse ETL writes: one module per kind of destination."""
