"""Workers made by fork hold 100 MiB each; then their parent asks for what fits only if they are not counted."""
import pool

pool.run("fork")
