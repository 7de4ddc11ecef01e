"""Model registry on MLflow: versions hold the model folder, aliases say which one drives.

Aliases: `champion` (drives and is the parent of the next candidate; exactly one once the registry is not
empty), `previous` (champion before it, the target of a rollback), `candidate` (last model that reached the
gate). Each alias is set in one transaction of the tracking store, so a crash between two steps leaves a
valid state, and running the same promotion again finishes it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_engine.tracking import (
    SQLITE,
    ExplainedClient,
    StoreError,
    check_uri,
    explained,
    quiet_mlflow,
    sqlite_path,
)
from drive.contracts import UserError
from drive.files import read_json, sha256_file

MODEL = "nightdrive"
WORKSPACE = Path("runs")
CHAMPION, PREVIOUS, CANDIDATE = "champion", "previous", "candidate"
ALIASES = (CHAMPION, PREVIOUS, CANDIDATE)
ARTIFACT_FOLDER, LINEAGE_FOLDER = "model", "lineage"
ARTIFACTS = "mlartifacts"
DATABASE = "mlflow.db"
ABSENT = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
NAME = re.compile(r"[\w.-]([\w. -]*[\w.-])?")


@dataclass(frozen=True)
class Version:
    """One registered model: registry version, weights' id (sha256[:12]) and tags."""

    version: int
    model_id: str
    tags: Mapping[str, str]


class Registry:
    """The registered model `model` at one tracking URI.

    Every method that reaches the store raises UserError if it is damaged, is silent or refuses.

    Raises:
        UserError: `model` is not a name.
    """

    def __init__(self, workspace: Path, tracking_uri: str | None = None, model: str = MODEL) -> None:
        if not NAME.fullmatch(model):
            raise UserError(f"registered model {model!r}: use letters, digits, '.', '-' and '_' in its name")
        self.workspace = workspace
        self.uri = tracking_uri or default_uri(workspace)
        self.model = model
        self._client: ExplainedClient | None = None

    @property
    def client(self) -> ExplainedClient:
        """MLflow client; importing MLflow takes seconds, so only when needed."""
        if self._client is None:
            if self._own:
                self.workspace.mkdir(parents=True, exist_ok=True)
            self.check()
            mlflow = quiet_mlflow()
            with explained(self.uri):
                mlflow.set_tracking_uri(self.uri)
                self._client = ExplainedClient(mlflow.MlflowClient(tracking_uri=self.uri), self.uri)
        return self._client

    @property
    def _own(self) -> bool:
        """Is the store the workspace's?"""
        return self.uri == default_uri(self.workspace)

    def check(self) -> None:
        """Raise UserError if the store is damaged, silent, or none at all; quick, makes nothing."""
        check_uri(self.uri, self.workspace / ARTIFACTS if self._own else None)

    def get(self, alias: str) -> Version | None:
        """Version that carries an alias, None if there is none."""
        try:
            return _version(self.client.get_model_version_by_alias(self.model, alias))
        except StoreError as error:
            if error.code in ABSENT:
                return None
            raise

    def register(self, folder: Path, *, tags: Mapping[str, str], lineage: Sequence[Path] = ()) -> Version:
        """Register a model folder; the same weights are registered once.

        Args:
            folder: Model folder.
            tags: Of the version.
            lineage: Files that say how it was made; kept beside the model.

        Raises:
            UserError: The folder is not a model folder.
        """
        model_id = model_id_of(folder)
        found = self.find(model_id)
        if found is not None:
            return found
        self._ensure_model()
        run = self.client.create_run(
            self.experiment_id(), tags={"mlflow.runName": f"model {model_id}", **tags}
        )
        self.client.log_artifacts(run.info.run_id, str(folder), ARTIFACT_FOLDER)
        for path in lineage:
            self.client.log_artifact(run.info.run_id, str(path), LINEAGE_FOLDER)
        self.client.set_terminated(run.info.run_id)
        source = f"{run.info.artifact_uri}/{ARTIFACT_FOLDER}"
        made = self.client.create_model_version(
            self.model, source, run.info.run_id, tags={"model_id": model_id, **tags}
        )
        return _version(made)

    def find(self, model_id: str) -> Version | None:
        """Version with these weights, None if they are not registered."""
        versions = [v for v in self.versions() if v.model_id == model_id]
        return versions[0] if versions else None

    def versions(self) -> list[Version]:
        """All versions, oldest first."""
        found = self.client.search_model_versions(f"name='{self.model}'")
        return sorted((_version(v) for v in found), key=lambda v: v.version)

    def set_alias(self, alias: str, version: int) -> None:
        """Point an alias at a version (one transaction)."""
        self.client.set_registered_model_alias(self.model, alias, str(version))

    def tag(self, version: int, **tags: str) -> None:
        """Set tags of a version."""
        for key, value in tags.items():
            self.client.set_model_version_tag(self.model, str(version), key, value)

    def ensure_champion(self, base_folder: Path) -> Version:
        """The champion; an empty registry gets the base model as its first one."""
        champion = self.get(CHAMPION)
        if champion is None:
            champion = self.register(base_folder, tags={"origin": "base"})
            self.set_alias(CHAMPION, champion.version)
        return champion

    def promote(self, version: int) -> None:
        """Make `version` the champion and the old champion `previous`; idempotent.

        `previous` is set first: a crash in between leaves the old champion in charge, and repeating finishes.
        """
        champion = self.get(CHAMPION)
        if champion is not None and champion.version == version:
            return
        if champion is not None:
            self.set_alias(PREVIOUS, champion.version)
        self.set_alias(CHAMPION, version)

    def rollback(self) -> tuple[Version, Version]:
        """Make `previous` the champion again; returns (old champion, new champion).

        Raises:
            UserError: There is no earlier champion.
        """
        champion, previous = self.get(CHAMPION), self.get(PREVIOUS)
        if champion is None or previous is None or champion.version == previous.version:
            raise UserError(f"{self.uri}: {self.model} has no previous champion to go back to")
        self.set_alias(CHAMPION, previous.version)
        self.client.delete_registered_model_alias(self.model, PREVIOUS)
        self.tag(champion.version, rolled_back="true")
        return champion, previous

    def folder(self, spec: str) -> Path:
        """Local model folder of an alias or version number.

        Raises:
            UserError: No such alias or version, or its files are gone.
        """
        if spec.isdecimal():
            known = [v.version for v in self.versions()]
            uri = f"models:/{self.model}/{spec}" if int(spec) in known else None
        else:
            uri = f"models:/{self.model}@{spec}" if self.get(spec) is not None else None
        if uri is None:
            raise UserError(
                f"{self.uri}: {self.model} has no version or alias {spec!r}; run `drive nightly` first"
            )
        mlflow = quiet_mlflow()
        try:
            with explained(self.uri):
                mlflow.set_tracking_uri(self.uri)
                return Path(mlflow.artifacts.download_artifacts(uri))
        except StoreError as error:
            raise UserError(f"{uri}: its files cannot be read; restore them ({error})") from error

    def lineage(self, version: int) -> Path:
        """Local folder with the lineage files of a version.

        Raises:
            UserError: No such version, or none are kept for it (the base model).
        """
        run_id = self.client.get_model_version(self.model, str(version)).run_id
        try:
            return Path(self.client.download_artifacts(run_id, LINEAGE_FOLDER))
        except StoreError as error:
            raise UserError(f"version {version}: no lineage is kept for it, as for a base model") from error

    def peek(self, alias: str) -> Path | None:
        """As `folder`, but None if nothing has the alias; makes no store where there is none yet."""
        if self.uri.startswith(SQLITE) and not sqlite_path(self.uri).exists():
            if not self._own:
                self.check()
            return None
        return self.folder(alias) if self.get(alias) is not None else None

    def experiment_id(self) -> str:
        """Experiment of this model, made on first use; a local store keeps artifacts in the workspace."""
        found = self.client.get_experiment_by_name(self.model)
        if found is not None:
            return str(found.experiment_id)
        local = self.uri.startswith("sqlite:")
        place = (self.workspace / ARTIFACTS).resolve().as_uri() if local else None
        return str(self.client.create_experiment(self.model, artifact_location=place))

    def log_night(
        self, night: str, params: Mapping[str, Any], metrics: Mapping[str, float], tags: Mapping[str, str]
    ) -> str:
        """Log one night as an MLflow run, once; returns the run id."""
        from mlflow.entities import Metric, Param, RunTag

        experiment = self.experiment_id()
        found = self.client.search_runs(
            [experiment], f"tags.night = '{night}' and tags.kind = 'night' and attributes.status = 'FINISHED'"
        )
        if found:
            return str(found[0].info.run_id)
        run = self.client.create_run(
            experiment, tags={"mlflow.runName": f"night {night}", "night": night, "kind": "night"}
        )
        rows = [Metric(key, float(value), 0, 0) for key, value in sorted(metrics.items())]
        settings = [Param(key, str(value)) for key, value in sorted(params.items())]
        labels = [RunTag(key, str(value)) for key, value in sorted(tags.items())]
        self.client.log_batch(run.info.run_id, metrics=rows, params=settings, tags=labels)
        self.client.set_terminated(run.info.run_id)
        return str(run.info.run_id)

    def _ensure_model(self) -> None:
        try:
            self.client.create_registered_model(self.model)
        except StoreError as error:
            if error.code != "RESOURCE_ALREADY_EXISTS":
                raise


def resolve(spec: str, workspace: Path = WORKSPACE, tracking_uri: str | None = None) -> Path:
    """Model folder of `champion`, `previous`, `candidate`, `models:/NAME@ALIAS` or `models:/NAME/VERSION`.

    Raises:
        UserError: Not such a name, or nothing is registered under it.
    """
    model = MODEL
    name = spec
    if spec.startswith("models:/"):
        body = spec.removeprefix("models:/")
        model, mark, name = body.partition("@") if "@" in body else body.partition("/")
        if not mark or not name:
            raise UserError(f"{spec!r}: write models:/NAME@ALIAS or models:/NAME/VERSION")
    elif spec not in ALIASES:
        raise UserError(f"{spec!r}: not in the registry; use {', '.join(ALIASES)} or models:/NAME@ALIAS")
    return open_registry(workspace, tracking_uri, model).folder(name)


def open_registry(workspace: Path, tracking_uri: str | None = None, model: str = MODEL) -> Registry:
    """The registry of a workspace that has one.

    Raises:
        UserError: No registry there yet, or one that cannot be used.
    """
    registry = Registry(workspace, tracking_uri, model)
    if registry.uri.startswith(SQLITE) and not sqlite_path(registry.uri).exists():
        raise UserError(f"{sqlite_path(registry.uri)}: no registry here yet; run `drive nightly` first")
    registry.check()
    return registry


def default_uri(workspace: Path) -> str:
    """Tracking URI of the workspace's own sqlite store."""
    return f"sqlite:///{(workspace / DATABASE).resolve()}"


def model_id_of(folder: Path) -> str:
    """The weights' sha256[:12] as recorded in a model folder.

    Raises:
        UserError: Not a model folder.
    """
    weights = folder / "model.safetensors"
    if not weights.exists() or not (folder / "meta.json").exists():
        raise UserError(f"{folder}: not a model folder (needs config.json, model.safetensors and meta.json)")
    recorded = read_json(folder / "meta.json").get("sha256")
    actual = sha256_file(weights)
    if recorded is not None and recorded != actual:
        raise UserError(
            f"{weights}: does not match the checksum in meta.json; the model is damaged, restore it"
        )
    return actual[:12]


def _version(found: Any) -> Version:
    tags = dict(found.tags or {})
    return Version(int(found.version), tags.get("model_id", ""), tags)
