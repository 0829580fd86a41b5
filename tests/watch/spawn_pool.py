"""As fork_pool.py, with workers that begin as programs of their own."""
import pool

if __name__ == "__main__":
    pool.run("spawn")
