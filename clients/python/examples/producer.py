import asyncio

from penstock import AsyncPenstock


async def messages():
    for number in range(10_000):  # such as the rows of a database
        yield {"id": f"welcome-{number}", "payload": {"to": f"user{number}@example.com"}, "lane": "example.com"}


async def main():
    async with AsyncPenstock() as client:
        await client.put_queue("email", {"rate": "50/s", "pull": True, "capacity": 20_000})
        async for result in client.append_stream("email", messages(), in_flight=1000):
            if result.error:
                print(result.id, result.error)
    print("done")


asyncio.run(main())
