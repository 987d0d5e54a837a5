from penstock import Penstock

with Penstock() as client:
    client.put_queue("hello", {"rate": "5/s", "pull": True})
    job = client.append("hello", {"payload": {"to": "a@example.com"}})
    print(job.state, "at position", job.position)

    with client.worker("hello", lambda job: print("working on", job.payload)):
        print(client.wait("hello", job.id, timeout=10)["state"])
