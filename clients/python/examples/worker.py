import penstock


def handler(job):
    if "image" not in job.payload:
        return penstock.dead("the job has no image")
    print("resizing", job.payload["image"], flush=True)
    if job.lost.is_set():  # check this in long work
        return penstock.retry()


client = penstock.Penstock(on=lambda event: print(event))
client.worker("resize", handler, concurrency=20).run()
