"""Errors of an application, each as one line under ``detail``."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse

from laplacianshot.runtime.errors import InputError


def add_errors(app: FastAPI) -> None:
    """Report every error as one line under ``detail``."""

    @app.exception_handler(InputError)
    def _(request: Request, error: InputError) -> JSONResponse:
        return problem(getattr(error, "code", 422), str(error))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        # Pydantic puts the kind of error before our own messages.
        return problem(422, f"{place}: {first['msg'].removeprefix('Value error, ')}")

    @app.exception_handler(OSError)
    def _(request: Request, error: OSError) -> JSONResponse:
        return problem(503, f"a file could not be read or written ({error.strerror or type(error).__name__}).")


def problem(status: int, detail: str) -> JSONResponse:
    """Return an error in one line."""
    line = " ".join(detail.split()).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": line[:1000]}, status_code=status)
