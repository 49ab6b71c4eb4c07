import typer
app = typer.Typer()
@app.callback()
def x() -> None: ...
