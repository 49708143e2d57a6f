"""Paths that change labels and classes, and those that carry them in and out."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query
from fastapi.responses import Response

from laplacianshot.studio import actions, exporting, schemas
from laplacianshot.studio.changes import ActionError
from laplacianshot.studio.describe import action_info, state_of
from laplacianshot.studio.schemas import Digits, Problem
from laplacianshot.studio.session import Session
from laplacianshot.studio.store import Action

_MOST = 2**31 - 1
# Seconds that a request waits at most for work in the background.
PATIENCE = 30.0

ClassPath = Annotated[int, Path(ge=1, le=_MOST), Digits]
_RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Not there"},
    409: {"model": Problem, "description": "Not as things are"},
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {},
            "application/x-ndjson": {},
            "application/vnd.apache.parquet": {},
            "application/json": {},
            "application/xml": {},
        },
        "description": "The file",
    }
}


def action_routes(session: Session) -> APIRouter:
    """The paths of what a person can do."""
    router = APIRouter(prefix="/api", tags=["actions"])

    def done(action: Action) -> schemas.Done:
        return schemas.Done(state=state_of(session), action=action_info(action))

    @router.post("/label", responses=_RESPONSES)
    def label(body: schemas.LabelByClass | schemas.LabelByName) -> schemas.Done:
        """Give items a label, or take it away."""
        if isinstance(body, schemas.LabelByName):
            return done(actions.label_by_name(session, body.items, body.name))
        if body.class_id is None:
            return done(actions.clear(session, body.items))
        return done(actions.label(session, body.items, body.class_id))

    @router.post("/accept", responses=_RESPONSES)
    def accept(body: schemas.AcceptItems | schemas.AcceptSure) -> schemas.Done:
        """Make predictions given labels."""
        if isinstance(body, schemas.AcceptItems):
            return done(actions.accept(session, body.items))
        return done(actions.accept_sure(session, body.min_confidence, body.class_id))

    @router.post("/classes", responses=_RESPONSES)
    def add_class(body: schemas.ClassRequest) -> schemas.Done:
        """Make a class."""
        return done(actions.add_class(session, body.name))

    @router.patch("/classes/{class_id}", responses=_RESPONSES)
    def rename_class(class_id: ClassPath, body: schemas.ClassRequest) -> schemas.Done:
        """Give a class another name."""
        return done(actions.rename_class(session, class_id, body.name))

    @router.post("/classes/{class_id}/merge", responses=_RESPONSES)
    def merge_classes(class_id: ClassPath, body: schemas.MergeRequest) -> schemas.Done:
        """Make a class part of another one."""
        return done(actions.merge_classes(session, class_id, body.into))

    @router.delete("/classes/{class_id}", responses=_RESPONSES)
    def delete_class(class_id: ClassPath) -> schemas.Done:
        """Delete a class and its labels."""
        return done(actions.delete_class(session, class_id))

    @router.post("/undo", responses=_RESPONSES)
    def undo(body: schemas.StepsRequest) -> schemas.Done:
        """Take back the last action, or several."""
        return done(session.turn_back(body.steps))

    @router.post("/redo", responses=_RESPONSES)
    def redo(body: schemas.StepsRequest) -> schemas.Done:
        """Do again what was taken back."""
        return done(session.turn_back(body.steps, redo=True))

    @router.get("/history")
    def history(
        offset: Annotated[int, Query(ge=0, le=_MOST), Digits] = 0,
        limit: Annotated[int, Query(ge=1, le=500), Digits] = 100,
    ) -> schemas.History:
        """What was done, the newest first."""
        found = session.store.history(offset, limit)
        total = session.store.version
        return schemas.History(version=total, total=total, actions=[action_info(action) for action in found])

    @router.post("/import", responses=_RESPONSES)
    def import_labels(
        content: Annotated[bytes, Body(media_type="application/octet-stream")],
        name: Annotated[str, Query(max_length=300)],
        replace: Annotated[bool, Query()] = False,
    ) -> schemas.Imported:
        """Take over the labels of a file: a table of ids and labels, or an export of Label Studio."""
        found = exporting.import_file(session, name, content, replace=replace)
        if found.action is None:
            kept = f" {found.kept} items keep the labels they have." if found.kept else ""
            raise ActionError(f"the file holds no label that is new.{kept}")
        return schemas.Imported(
            state=state_of(session),
            action=action_info(found.action),
            imported=found.imported,
            kept=found.kept,
            notes=list(found.notes),
        )

    @router.get("/export", responses=_FILE, response_class=Response)
    def export(
        format: Annotated[schemas.ExportName, Query()] = "csv", disputes: Annotated[bool, Query()] = False
    ) -> Response:
        """Every label, as ``laplacianshot label`` writes them, or tasks for Label Studio.

        After an action it waits, at most 30 seconds, for the whole answer to it.
        """
        session.engine.wait_until_whole(PATIENCE)
        made = exporting.export(session, format, disputes=disputes)
        headers = {"content-disposition": f'attachment; filename="{made.name}"'}
        return Response(made.content, media_type=made.media_type, headers=headers)

    return router
